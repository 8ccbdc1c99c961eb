"""Writes the page of an application as one HTML file, to keep or to send: state, instances,
history, metrics, and the last lines of the logs. The file needs no server and no network.

  tfapp report mnist > mnist.html
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, add_run_flag, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp report`."""
    add_name(parser)
    add_run_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the page."""
    from tfapp.launch.pages import kept
    from tfapp.page.html import page

    shell.write(page(kept(engine_of(args, shell), args.name, args.run)).encode())
    return ExitCode.SUCCESS
