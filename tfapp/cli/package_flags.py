"""The flags that name a package and change it on the way in: the same for `validate`, `compile`
and `create`, and Slider's own. `run`, which knows its package, has those that set single keys."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfapp.package.overrides import Overrides


def file_path(text: str) -> Path:
    """A flag's value as the path of what there is, or will be. argparse turns the error into a
    usage message."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found nothing")
    return Path(text)


def add_package_flags(parser: argparse.ArgumentParser) -> None:
    """Adds all of them but the package itself, which commands name differently."""
    group = parser.add_argument_group("the package")
    group.add_argument(
        "--template",
        metavar="FILE",
        type=file_path,
        help="appConfig in place of the package's appConfig-default",
    )
    group.add_argument(
        "--resources",
        metavar="FILE",
        type=file_path,
        help="resources in place of the package's resources-default",
    )
    group.add_argument(
        "--files",
        metavar="PATH",
        type=file_path,
        nargs="+",
        action="extend",
        default=[],
        help="files, and folders' contents, to ship beside the package's own files/",
    )
    add_override_flags(group)


def add_override_flags(group: argparse._ActionsContainer) -> None:
    """Adds those that set single keys."""
    for flags, metavar, help_text in _OVERRIDES:
        group.add_argument(
            *flags,
            dest=flags[0].lstrip("-"),
            metavar=metavar if len(metavar) > 1 else metavar[0],
            nargs=len(metavar),
            action="append",
            default=[],
            help=help_text,
        )


_OVERRIDES = (
    (("--option", "-O"), ("KEY", "VALUE"), "set an appConfig key in `global`"),
    (("--compopt", "--co"), ("COMPONENT", "KEY", "VALUE"), "set an appConfig key of a component"),
    (("--resopt", "-ro"), ("KEY", "VALUE"), "set a resources key in `global`"),
    (("--rescompopt", "-rco"), ("COMPONENT", "KEY", "VALUE"), "set a resources key of a component"),
    (("--component", "--role"), ("COMPONENT", "N"), "how many instances a component has"),
)


def overrides_of(args: argparse.Namespace) -> Overrides:
    """The overrides among the parsed flags, as they were written."""
    from tfapp.package.overrides import Overrides

    return Overrides(
        options=_rows(args.option),
        compopts=_rows(args.compopt),
        resopts=_rows(args.resopt),
        rescompopts=_rows(args.rescompopt),
        components=_rows(args.component),
    )


def _rows(rows: list[list[str]]) -> tuple:
    return tuple(map(tuple, rows))


def user_files(args: argparse.Namespace) -> dict[str, Path]:
    """`--files` as places below files/ in a container -> the user's own files."""
    from tfapp.package.source import collect_user_files

    return collect_user_files(args.files)
