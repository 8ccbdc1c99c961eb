"""A folder or .zip -> AppPackage, with all of its problems. The stages are: the files, their
syntax, the changes of the command line, the schemas, and the rules across documents. Each stage
works with what the one before could read. A document that does not fit its schema only stops the
rules that need that document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfapp.errors import InvalidPackageError
from tfapp.frozen import frozen
from tfapp.package.build import CheckedDocuments, build_package
from tfapp.package.model import AppPackage
from tfapp.package.overrides import Overrides
from tfapp.package.read import DocumentReader
from tfapp.package.rules import check_rules
from tfapp.package.source import open_source
from tfapp.problems import Problem, has_errors


@frozen
class Loaded:
    """`package` is None when an error is among the `problems`, which are sorted by place.
    `documents`: those that it was made of."""

    package: AppPackage | None
    problems: tuple[Problem, ...]
    documents: CheckedDocuments | None = None


def load_package(
    source_path: Path,
    *,
    template: Path | None = None,
    resources: Path | None = None,
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    user_files: Mapping[str, Path] | None = None,
    programs: bool = True,
) -> Loaded:
    """Reads and checks the package at `source_path`. `template` and `resources` name files that
    replace the package's appConfig and resources; a bare name that is no file in the working folder
    may be a file of the package. `user_files` maps paths below files/ to the user's own files
    (`collect_user_files`). With `programs` False, the package's own files/ is left out. Everything
    that is wrong with the package is a Problem; nothing is raised for it."""
    try:
        source = open_source(source_path, str(source_path), programs)
    except InvalidPackageError as error:
        return Loaded(None, error.problems)
    reader = DocumentReader(source, overrides)
    extra = reader.extension()
    metainfo = reader.document("metainfo")
    if metainfo.sound:
        components = metainfo.section("application").get("components", ())
        reader.refuse_others([component["name"] for component in components])
    documents = CheckedDocuments(
        metainfo=metainfo,
        app_config=reader.document("appConfig", template, extra),
        resources=reader.document("resources", resources),
    )
    package = build_package(source, documents, reader.defaults(), user_files or {})
    problems = tuple(sorted({*reader.problems, *check_rules(package, documents.sound)}))
    return Loaded(None if has_errors(problems) else package, problems, documents)
