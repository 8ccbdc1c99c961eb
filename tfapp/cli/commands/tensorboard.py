"""Prints the address of an application's TensorBoard, once it runs. If this machine cannot reach it
directly, the command forwards a local port to it until Ctrl-C or the end of the application, and
prints the new address if TensorBoard is restarted.

After the end of the application, and for one that has no TensorBoard, the command starts one on
this machine, until Ctrl-C. It shows the checkpoint folder, or copies of the event files if this
machine cannot see the folder.

  tfapp run train.py -w 4 --tensorboard --name mnist --detach
  tfapp tensorboard mnist
"""

from __future__ import annotations

import argparse
import contextlib

from tfapp.cli.flags import add_name, engine_of, seconds
from tfapp.cli.shell import Shell
from tfapp.engines.base import Engine

PATIENCE = 600.0  # seconds until it must run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=PATIENCE,
        help="give up if TensorBoard does not run after S seconds (default: %(default)g)",
    )


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints its address, and stays where that takes it."""
    from tfapp.launch.follow import States, changes, has_ended
    from tfapp.launch.tensorboard import ROLE, page_of, wait_for_page

    engine = engine_of(args, shell)
    found = engine.find(args.name)
    roles = {instance.role for instance in found.status.instances}
    if has_ended(found) or ROLE not in roles:
        _open_here(engine, args, shell)
        return
    states = States(engine, found.name, found.run)
    page = wait_for_page(states, args.name, args.timeout)
    with contextlib.ExitStack() as held:
        try:
            address = held.enter_context(engine.reach(args.name, page.instance, page.address))
            shell.print(address)
            if address == page.address:
                return
            shell.flush()
            shell.note(f"leads to {page.address} of {page.instance} (Ctrl-C ends it)")
            for application in changes(states):
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


def _open_here(engine: Engine, args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.launch.tensorboard import board_over

    try:
        with board_over(engine, args.name, shell, args.timeout) as board:
            shell.print(board.address)
            shell.flush()
            shell.note(f"shows {board.place} (Ctrl-C ends it)")
            board.wait()
    except KeyboardInterrupt:
        shell.note("")
