"""Kills a container of a running application, with the program in it, to test what happens when a
machine is lost. The application's failurePolicy decides what follows.

  tfapp kill-container mnist worker/1
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, engine_of
from tfapp.cli.shell import Shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "container", metavar="INSTANCE", help="an instance such as worker/1, or a container's id"
    )


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.engines.control import kill_container

    killed = kill_container(engine_of(args, shell), args.name, args.container)
    shell.note(f"killed {killed}")
