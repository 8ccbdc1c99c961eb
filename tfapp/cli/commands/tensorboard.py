"""Prints the address of an application's TensorBoard, once it runs. If this machine cannot reach it
directly, the command forwards a local port to it until Ctrl-C or the end of the application, and
prints the new address if TensorBoard is restarted.

After the end of the application, the command starts a TensorBoard on this machine, until Ctrl-C. It
shows the checkpoint folder, or copies of the event files if this machine cannot see the folder.

  tfapp run train.py -w 4 --tensorboard --name mnist --detach
  tfapp tensorboard mnist
"""

from __future__ import annotations

import argparse
import contextlib

from tfapp.cli.flags import add_name, engine_of, seconds
from tfapp.cli.shell import Shell
from tfapp.engines.base import Engine
from tfapp.errors import ExitCode

PATIENCE = 600.0  # seconds until it must run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp tensorboard`."""
    add_name(parser)
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=PATIENCE,
        help="give up if TensorBoard does not run after S seconds (default: %(default)g)",
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints its address, and stays where that takes it."""
    from tfapp.launch.follow import Feed, changes, has_ended
    from tfapp.launch.tensorboard import page_of, wait_for_page

    engine = engine_of(args, shell)
    found = engine.find(args.name)
    if has_ended(found):
        return _open_here(engine, args, shell)
    feed = Feed(engine, found.name, found.run)
    page = wait_for_page(feed, args.name, args.timeout)
    with contextlib.ExitStack() as held:
        try:
            address = held.enter_context(engine.reach(args.name, page.instance, page.address))
            shell.print(address)
            if address == page.address:
                return ExitCode.SUCCESS
            shell.flush()
            shell.note(f"leads to {page.address} of {page.instance} (Ctrl-C ends it)")
            for application in changes(feed):
                now = application and page_of(application.status)
                if now and now != page:
                    held.close()
                    page = now
                    shell.print(
                        held.enter_context(engine.reach(args.name, now.instance, now.address))
                    )
                    shell.flush()
                if application and has_ended(application):
                    break
            shell.note(f"{args.name} has ended")
        except KeyboardInterrupt:
            shell.note("")
    return ExitCode.SUCCESS


def _open_here(engine: Engine, args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.launch.tensorboard import board_over

    try:
        with board_over(engine, args.name, shell, args.timeout) as board:
            shell.print(board.address)
            shell.flush()
            shell.note(f"shows {board.place} (Ctrl-C ends it)")
            board.wait()
    except KeyboardInterrupt:
        shell.note("")
    return ExitCode.SUCCESS
