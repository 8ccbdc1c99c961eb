"""Forgets an application and deletes its logs, and what it alone has shipped. Checkpoints are
never touched. A running application is refused (73), or stopped first with --force.

  tfapp destroy mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.engine_flags import add_name
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp destroy`."""
    add_name(parser)
    parser.add_argument("--force", action="store_true", help="stop it first when it runs")


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Destroys it."""
    engine = shell.engine(args.engine)
    if args.force:
        engine.stop(args.name, "destroyed", force=True)
    engine.destroy(args.name)
    shell.note(f"{args.name} is destroyed; its checkpoints are where they were")
    return ExitCode.SUCCESS
