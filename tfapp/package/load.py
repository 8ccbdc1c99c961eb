"""A folder or .zip to an AppPackage, with everything that is wrong in it.

The stages, each of which goes on with what the one before could make sense of: the files, their
syntax, the command line's changes, the schemas, the rules across documents. A document that
breaks its schema keeps only those rules from running that need it.
"""

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
from tfapp.package.source import WithoutPrograms, open_source
from tfapp.problems import Problem, has_errors


@frozen
class Loaded:
    """`package` is None when an error is among the `problems`, which are sorted by place."""

    package: AppPackage | None
    problems: tuple[Problem, ...]


def load_package(
    source_path: Path,
    *,
    template: Path | None = None,
    resources: Path | None = None,
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    user_files: Mapping[str, Path] | None = None,
    programs: bool = True,
) -> Loaded:
    """Reads and checks the package at `source_path`.

    `template` and `resources` name files to be used in place of the package's appConfig and
    resources; a bare name that is no file here may be one of the package's. `user_files` maps
    paths below files/ to the user's own files (`collect_user_files`); without `programs` nothing
    else is there. Whatever is wrong with the package is a Problem; nothing is raised for it.
    """
    try:
        source = open_source(source_path, str(source_path))
        source = source if programs else WithoutPrograms(source)
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
    return Loaded(None if has_errors(problems) else package, problems)
