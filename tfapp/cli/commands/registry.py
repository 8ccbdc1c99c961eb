"""Shows export groups as JSON in the form of Slider's `registry`, for scripts that read it.
`tfapp exports` shows the same values as a table.

  tfapp registry --name mnist --listexp
  tfapp registry --name mnist --getexp worker
"""

from __future__ import annotations

import argparse

from tfapp.cli.console import to_json
from tfapp.cli.flags import add_engine_flag, engine_of
from tfapp.cli.shell import Shell
from tfapp.close_match import did_you_mean
from tfapp.errors import NotFoundError
from tfapp.page.registry import export_groups


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", required=True, help="the application")
    operation = parser.add_mutually_exclusive_group(required=True)
    operation.add_argument("--listexp", action="store_true", help="print the names of the groups")
    operation.add_argument("--getexp", metavar="GROUP", help="print the entries of a group")
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints names or entries. NotFoundError for a group that there is not."""
    groups = export_groups(engine_of(args, shell).find(args.name).status)
    if args.listexp:
        for name in groups:
            shell.print(name)
        return
    if args.getexp not in groups:
        known = (
            f"Groups: {', '.join(groups)}." if groups else "No instance has exported anything yet."
        )
        hint = did_you_mean(args.getexp, groups, known)
        raise NotFoundError(f"{args.name} has no export group {args.getexp!r}", hint)
    shell.print(to_json(groups[args.getexp]))
