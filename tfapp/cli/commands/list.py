"""Lists applications, newest first. Shows the newest run of each, its state, its start and its
duration.

  tfapp list --state RUNNING
  tfapp stop $(tfapp list --live --quiet)
"""

from __future__ import annotations

import argparse

from tfapp.cli.console import columns, duration, when
from tfapp.cli.flags import add_engine_flag, add_format_flag, engine_of
from tfapp.cli.json_output import document, row
from tfapp.cli.shell import Shell
from tfapp.contract.names import (
    ACCEPTED,
    FAILED,
    FORMING,
    KILLED,
    RUNNING,
    STOPPING,
    SUCCEEDED,
    SUSPENDED,
)
from tfapp.engines.base import DAMAGED, Application

_STATES = (
    *(ACCEPTED, FORMING, RUNNING, STOPPING, SUSPENDED),
    *(SUCCEEDED, FAILED, KILLED, DAMAGED),
)
_HEADER = ("NAME", "STATE", "RUN", "STARTED", "DURATION", "TAGS", "ID")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--live", action="store_true", help="only applications that have not ended")
    parser.add_argument(
        "--state", type=str.upper, choices=_STATES, metavar="STATE", help=", ".join(_STATES)
    )
    parser.add_argument("--tag", metavar="T", help="only applications with this tag")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the names only")
    add_format_flag(parser)
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints the applications that the flags let through."""
    found = [a for a in engine_of(args, shell).list() if _wanted(a, args)]
    if args.quiet:
        for application in found:
            shell.print(application.name)
    elif args.format == "json":
        shell.print(document(applications=[row(application) for application in found]))
    else:
        rows = [_row(application) for application in found]
        shell.print(columns(_HEADER, rows, shell.width, spare="ID"))
        if not found:
            chosen = args.live or args.state or args.tag
            shell.note("there is no such application" if chosen else "no applications yet")
    for application in found:
        if application.status.state == DAMAGED:
            name, reason = application.name, application.waits
            shell.note(f"warning: {name}: {reason}\n  `tfapp destroy {name}` deletes it.")


def _wanted(application: Application, args: argparse.Namespace) -> bool:
    return (
        (application.live or not args.live)
        and args.state in (None, application.status.state)
        and (args.tag is None or args.tag in application.tags)
    )


def _row(application: Application) -> tuple[str, ...]:
    return (
        application.name,
        application.status.state,
        str(application.run or "-"),
        when(application.status.started),
        duration(application),
        ",".join(application.tags) or "-",
        application.id or "-",
    )
