"""Stops a running application and waits until it has ended. Programs get SIGTERM and the grace
time of `site.global.stop.grace`; with --force they are killed at once. An application that is
not running is left as it is, which is no error.

  tfapp stop mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.engine_flags import add_name, seconds
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp stop`."""
    add_name(parser)
    parser.add_argument(
        "--message", metavar="TEXT", default="stop command issued", help="why, for the verdict"
    )
    parser.add_argument("--force", action="store_true", help="without grace")
    parser.add_argument(
        "--wait",
        metavar="S",
        type=seconds,
        help="seconds until it must have ended, else it is as --force (default: 30 more than "
        "site.global.stop.grace)",
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Stops it, and says how it ended."""
    engine = shell.engine(args.engine)
    before = engine.find(args.name)
    after = engine.stop(args.name, args.message, force=args.force, timeout=args.wait)
    if before.live:
        shell.note(f"{args.name}: {after.status.state}")
    else:
        shell.note(f"{args.name} was not running: {after.status.state}")
    return ExitCode.SUCCESS
