"""Prints what the programs of an application wrote, each line behind its instance's name; one
instance's log as it is. With -f, goes on until the application ends.

WHAT is an instance (worker/1), a component (worker), `coordinator` or `master`; without it, all
instances.

  tfapp logs mnist worker/1 -f
"""

from __future__ import annotations

import argparse
import contextlib

from tfapp.cli.engine_flags import add_name, add_run_flag
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp logs`."""
    add_name(parser)
    parser.add_argument("what", metavar="WHAT", nargs="?", default="", help="COMPONENT[/INDEX]")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the end")
    add_run_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the logs that exist, and with -f those that come."""
    from tfapp.cli.log_printer import LogPrinter, follow_logs

    engine = shell.engine(args.engine)
    application = engine.find(args.name, args.run)
    with contextlib.closing(LogPrinter(shell, engine, application, args.what)) as printer:
        if args.follow and application.live and printer.may_come():
            printer.tell_missing()
            follow_logs(printer, engine, application)
        printer.print_new(final=True)
        printer.tell_missing()
        if not printer.found:
            raise printer.not_found()
    return ExitCode.SUCCESS
