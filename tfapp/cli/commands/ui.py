"""Serves a page that shows the applications of this machine, and those of --engine, in a browser:
state, instances, history, metrics and logs, updated as they change. The command prints the address,
which contains a token: only those who have the address can see the page. The page is read-only.
Ctrl-C ends the command.

  tfapp ui
  tfapp ui mnist --engine yarn

Below the page of an application, ws/v1/slider/publisher serves its exports as Slider's registry
did.
"""

from __future__ import annotations

import argparse
import threading

from tfapp.cli.flags import add_engine_flag, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import UnavailableError

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
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.launch.pages import Pages
    from tfapp.page.server import PageServer

    engine = engine_of(args, shell)
    if args.name:
        engine.find(args.name)
    engines = {engine.name: engine}
    if engine.name != LOCAL:
        engines[LOCAL] = shell.engine(LOCAL)
    try:
        server = PageServer(Pages(engines).answer, args.port)
    except (OSError, OverflowError) as error:
        raise UnavailableError(
            f"port {args.port} of this machine cannot be used: {error}", "Leave --port out."
        ) from error
    try:
        with server.serving():
            shell.print(server.address + (f"{engine.name}/{args.name}/" if args.name else ""))
            shell.flush()
            shell.note("open this address in a browser (Ctrl-C ends it)")
            threading.Event().wait()
    except KeyboardInterrupt:
        shell.note("")
