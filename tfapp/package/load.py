"""A folder or .zip to an AppPackage, with everything that is wrong in it.

The stages, each of which goes on with what the one before could make sense of: the files, their
syntax, the command line's changes, the schemas, the rules across documents. A document that
breaks its schema keeps only those rules from running that need it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tfapp.documents.scalars import source_text
from tfapp.errors import InvalidPackageError
from tfapp.package.build import Sheets, build_package
from tfapp.package.model import AppPackage
from tfapp.package.overrides import Overrides
from tfapp.package.rules import check_rules
from tfapp.package.sheets import SheetReader
from tfapp.package.source import WithoutPrograms, open_source
from tfapp.problems import Problem, has_errors
from tfapp.schema import defaults


@dataclasses.dataclass(frozen=True)
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
    reader = SheetReader(source, overrides)
    extra = reader.extension()
    metainfo = reader.sheet("metainfo")
    if metainfo.sound:
        components = metainfo.section("application").get("components", ())
        reader.refuse_others([component["name"] for component in components])
    sheets = Sheets(
        metainfo=metainfo,
        app_config=reader.sheet("appConfig", template, extra),
        resources=reader.sheet("resources", resources),
    )
    default_texts = {
        key: source_text(value) for key, value in defaults("appConfig", extra=extra).items()
    }
    package = build_package(source, sheets, default_texts, user_files or {})
    problems = tuple(sorted({*reader.problems, *check_rules(package, sheets.sound)}))
    return Loaded(None if has_errors(problems) else package, problems)


def require_package(
    source_path: Path,
    *,
    template: Path | None = None,
    resources: Path | None = None,
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    user_files: Mapping[str, Path] | None = None,
) -> AppPackage:
    """`load_package` for who can do nothing with a wrong one: InvalidPackageError."""
    loaded = load_package(
        source_path,
        template=template,
        resources=resources,
        overrides=overrides,
        user_files=user_files,
    )
    if loaded.package is None:
        raise InvalidPackageError(loaded.problems)
    return loaded.package
