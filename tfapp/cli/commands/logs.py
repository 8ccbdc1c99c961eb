"""Prints the output of an application's programs. The log of a single instance is printed as it is;
of several, each line begins with the name of its instance. With -f, goes on until the application
ends.

WHAT is an instance (worker/1), a component (worker), `coordinator` or `master`. The default is all
instances.

--since and --timestamps use the time at which a line was begun, to a tenth of a second. It is not
known for a few logs, such as the master's on this machine. These are printed whole, with "-" for
the time, and a note says so.

  tfapp logs mnist worker/1 -f
  tfapp logs mnist --tail 20
  tfapp logs mnist --since 10min --timestamps
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import re
import time

from tfapp.cli.flags import add_name, add_run_flag, duration, engine_of
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application, Engine
from tfapp.engines.refusals import DamagedError
from tfapp.errors import TfappError, UnreachableError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("what", metavar="WHAT", nargs="?", default="", help="COMPONENT[/INDEX]")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the application ends"
    )
    parser.add_argument(
        "--tail", metavar="N", type=_count, help="only the last N lines of each log so far"
    )
    parser.add_argument(
        "--since",
        metavar="T",
        type=_moment,
        help='only lines since then: "10 min" or "2h" ago, or "2026-11-24 13:05"',
    )
    parser.add_argument("--timestamps", action="store_true", help="print the time before each line")
    add_run_flag(parser)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines, 0 or more")
    return int(text)


def _moment(text: str) -> float:
    """In seconds since 1970, of so long ago or of a date and a time."""
    try:
        # Python 3.9 knows no "Z".
        return datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text)).timestamp()
    except ValueError:
        pass
    if text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: {text}s or {text}min?")
    try:
        return time.time() - duration(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 10min, 2h or 2026-11-24T13:05"
        ) from None


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints the logs that exist, and with -f those that come."""
    from tfapp.launch.logs import LogPrinter, follow_logs

    engine = engine_of(args, shell)
    try:
        application, damaged = engine.find(args.name, args.run), None
    except (DamagedError, UnreachableError) as error:
        if args.follow and isinstance(error, UnreachableError):
            raise
        application, damaged = _without_state(engine, args, error), error
    printer = LogPrinter(
        shell,
        engine,
        application,
        args.what,
        last=args.tail,
        since=args.since,
        stamped=args.timestamps,
    )
    with contextlib.closing(printer):
        if args.follow and application.live and printer.may_come():
            printer.tell_missing()
            follow_logs(printer, engine, application, shell)
        printer.print_new(final=True)
        printer.tell_missing()
        if not printer.found:
            raise damaged or printer.not_found()
    if damaged:
        shell.note(f"warning: {damaged.message}")


def _without_state(engine: Engine, args: argparse.Namespace, error: TfappError) -> Application:
    """An application whose run is damaged, or whose master does not answer: its logs may be there
    all the same."""
    for application in engine.list():
        if application.name == args.name:
            return dataclasses.replace(application, run=args.run or application.run, live=False)
    raise error
