"""Prints what the programs of an application wrote, each line behind its instance's name; one
instance's log as it is. With -f, goes on until the application ends.

WHAT is an instance (worker/1), a component (worker), `coordinator` or `master`; without it, all
instances.

  tfapp logs mnist worker/1 -f
  tfapp logs mnist --tail 20
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses

from tfapp.cli.flags import add_name, add_run_flag, engine_of
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application, Engine
from tfapp.engines.refusals import DamagedError
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp logs`."""
    add_name(parser)
    parser.add_argument("what", metavar="WHAT", nargs="?", default="", help="COMPONENT[/INDEX]")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the end")
    parser.add_argument(
        "--tail", metavar="N", type=_count, help="only the last N lines of each log that is there"
    )
    add_run_flag(parser)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines, 0 or more")
    return int(text)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the logs that exist, and with -f those that come."""
    from tfapp.launch.logs import LogPrinter, follow_logs

    engine = engine_of(args, shell)
    try:
        application, damaged = engine.find(args.name, args.run), None
    except DamagedError as error:
        application, damaged = _without_state(engine, args, error), error
    printer = LogPrinter(shell, engine, application, args.what, last=args.tail)
    with contextlib.closing(printer):
        if args.follow and application.live and printer.may_come():
            printer.tell_missing()
            follow_logs(printer, engine, application)
        printer.print_new(final=True)
        printer.tell_missing()
        if not printer.found:
            raise damaged or printer.not_found()
    if damaged:
        shell.note(f"warning: {damaged.message}")
    return ExitCode.SUCCESS


def _without_state(engine: Engine, args: argparse.Namespace, error: DamagedError) -> Application:
    """An application whose run is damaged: its logs may be there all the same."""
    for application in engine.list():
        if application.name == args.name:
            return dataclasses.replace(application, run=args.run or application.run, live=False)
    raise error
