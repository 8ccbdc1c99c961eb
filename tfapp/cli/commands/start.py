"""Runs an application that has ended once more, from the same definition: program, configuration
and resources are those of its `create`. The new run has the next number and logs of its own;
checkpoints are where they were.

  tfapp start mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.engine_flags import add_follow_flags, add_name
from tfapp.cli.shell import Shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp start`."""
    add_name(parser)
    add_follow_flags(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Launches the next run and stays with it."""
    from tfapp.cli.launching import launch_and_stay

    engine = shell.engine(args.engine)
    return launch_and_stay(args.name, lambda: engine.start(args.name), engine, args, shell)
