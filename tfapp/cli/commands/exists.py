"""Tests whether there is an application called NAME. The exit code is 0 if there is one, and 69 if
not. With --live, it is 255 if the application exists but is not running.

  tfapp exists mnist --live || tfapp start mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--live", action="store_true", help="test whether it is running, too")


def run(args: argparse.Namespace, shell: Shell) -> int:
    application = engine_of(args, shell).find(args.name)
    shell.note(f"{args.name}: {application.status.state}")
    return ExitCode.FALSE if args.live and not application.live else ExitCode.SUCCESS
