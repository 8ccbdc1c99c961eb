"""Waits for the end of an application, and says which failures it survives meanwhile. The exit code
is that of the verdict, or 67 if the timeout passes first.

  tfapp wait mnist --timeout 3600
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_format_flag, add_name, add_run_flag, engine_of, seconds
from tfapp.cli.json_output import application as as_json
from tfapp.cli.shell import Shell
from tfapp.errors import TimedOutError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    add_run_flag(parser)
    parser.add_argument("--timeout", metavar="S", type=seconds, help="give up after S seconds")
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.cli.live import print_verdict, verdict_code
    from tfapp.launch.follow import States, Survived, changes, has_ended
    from tfapp.launch.sources import package_of

    engine = engine_of(args, shell)
    application = engine.find(args.name, args.run)
    states = States(engine, application.name, application.run)
    survived = Survived(shell, application)
    for changed in changes(states, args.timeout):
        if changed is None:
            raise TimedOutError(
                f"{args.name} has not ended after {args.timeout:g} s; it goes on",
                f"`tfapp status {args.name}` says what it does.",
            )
        application = changed
        survived.tell(application)
        if has_ended(application):
            break
    if args.format == "json":
        shell.print(as_json(application, package_of(shell, engine, application)))
    print_verdict(shell, application.status)
    return verdict_code(application.status)
