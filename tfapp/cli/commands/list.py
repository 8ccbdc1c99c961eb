"""Lists applications, newest first: each with its newest run.

tfapp list --state RUNNING
"""

from __future__ import annotations

import argparse

from tfapp.cli.engine_flags import add_engine_flag, add_format_flag
from tfapp.cli.shell import Shell
from tfapp.cli.tables import columns, to_json, when
from tfapp.contract.states import ACCEPTED, FAILED, FORMING, KILLED, RUNNING, STOPPING, SUCCEEDED
from tfapp.engines.base import Application
from tfapp.errors import ExitCode

_STATES = (ACCEPTED, FORMING, RUNNING, STOPPING, SUCCEEDED, FAILED, KILLED)
_HEADER = ("NAME", "STATE", "RUN", "STARTED", "TAGS", "ID")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp list`."""
    parser.add_argument("--live", action="store_true", help="only those that have not ended")
    parser.add_argument("--state", choices=_STATES, metavar="STATE", help=", ".join(_STATES))
    parser.add_argument("--tag", metavar="T", help="only those with this tag")
    add_format_flag(parser)
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the applications that the flags let through."""
    found = [a for a in shell.engine(args.engine).list() if _wanted(a, args)]
    if args.format == "json":
        shell.print(to_json([_as_dict(application) for application in found]))
    else:
        shell.print(columns(_HEADER, [_row(application) for application in found]))
        if not found:
            shell.note("there is no such application" if _filters(args) else "no applications yet")
    return ExitCode.SUCCESS


def _filters(args: argparse.Namespace) -> bool:
    return bool(args.live or args.state or args.tag)


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
        str(application.run),
        when(application.status.started),
        ",".join(application.tags) or "-",
        application.id,
    )


def _as_dict(application: Application) -> dict:
    return {
        "name": application.name,
        "engine": application.engine,
        "id": application.id,
        "run": application.run,
        "live": application.live,
        "state": application.status.state,
        "started": application.status.started,
        "tags": application.tags,
    }
