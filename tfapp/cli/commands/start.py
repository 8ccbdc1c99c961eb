"""Runs an application again that has ended, with the same program, configuration and resources.
Warns if their files have changed since; `tfapp create --replace` uses the present files. The new
run gets the next number and logs of its own, and uses the same checkpoint folder. The command says
whether there is something in it; whether the program goes on from there is its own affair.

  tfapp start mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_follow_flags, add_name, engine_of
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    add_follow_flags(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Launches the next run and stays with it."""
    from tfapp.cli.live import launch_and_stay

    engine = engine_of(args, shell)

    def start() -> Application:
        from tfapp.launch.checkpoints import kept_by
        from tfapp.launch.sources import warn_if_changed

        warn_if_changed(shell, engine, args.name)
        kept = kept_by(args.name, engine)
        application = engine.start(args.name)
        if kept:
            shell.note(f"{args.name}: {kept}")
        return application

    return launch_and_stay(args.name, start, engine, args, shell)
