"""Serves a page that shows the applications of this machine, and those of --engine, in a browser:
state, instances, history, what they use, metrics, stacks and logs, updated as they change. The
command prints the address, which contains a token: only those who have the address can see the
page. The page changes nothing. Ctrl-C ends the command.

  tfapp ui
  tfapp ui mnist --engine yarn
  tfapp ui --history s3://bucket/history

With --history the page shows the runs that have ended and are kept there (see `tfapp history`).

Below the page of an application, ws/v1/slider/publisher serves its exports as Slider's registry
did.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfapp.cli.flags import add_engine_flag, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from tfapp.page.server import PageAnswer, PageRequest

LOCAL = "local"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="an application: print the address of its page"
    )
    parser.add_argument(
        "--port",
        metavar="P",
        type=int,
        default=0,
        help="the port, on this machine's loopback address (default: a free one)",
    )
    parser.add_argument(
        "--history",
        metavar="DIR",
        help="show the runs in this history: what site.global.history.dir names",
    )
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.page.server import PageServer

    if args.history is not None and args.name:
        raise UsageError(
            f"--history shows the runs of all applications, not {args.name} alone",
            f"Leave {args.name} out; `tfapp history {args.name} --dir DIR` shows its newest run.",
        )
    path, answer = _answers(args, shell)
    try:
        server = PageServer(answer, args.port)
    except (OSError, OverflowError) as error:
        raise UnavailableError(
            f"port {args.port} of this machine cannot be used: {error}", "Leave --port out."
        ) from error
    try:
        with server.serving():
            shell.print(server.address + path)
            shell.flush()
            shell.note("open this address in a browser (Ctrl-C ends it)")
            threading.Event().wait()
    except KeyboardInterrupt:
        shell.note("")


def _answers(
    args: argparse.Namespace, shell: Shell
) -> tuple[str, Callable[[PageRequest], PageAnswer]]:
    """The path of the first page, and what answers for all."""
    from tfapp.launch.history import History
    from tfapp.launch.pages import HistoryPages, Pages

    if args.history is not None:
        history = History.at(args.history, shell.environ, shell.cwd)
        history.runs()  # whether it can be read
        return "", HistoryPages(history).answer
    engine = engine_of(args, shell)
    if args.name:
        engine.find(args.name)
    engines = {engine.name: engine}
    if engine.name != LOCAL:
        engines[LOCAL] = shell.engine(LOCAL)
    return f"{engine.name}/{args.name}/" if args.name else "", Pages(engines).answer
