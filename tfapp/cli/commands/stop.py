"""Stops running applications and waits until they have ended. Programs that save when they are
asked have `site.global.save.grace` for that. Then programs get the signal of
`site.global.stop.signal` (SIGTERM) and the grace time of `site.global.stop.grace`; with --force
they are killed at once. An application that is not running is no error. Several applications are
stopped at the same time. Every 10 seconds the command prints which programs it waits for, because
programs of TensorFlow may ignore SIGTERM.

  tfapp stop mnist
  tfapp stop mnist-1 mnist-2
  tfapp stop --tag sweep-7 --format json
"""

from __future__ import annotations

import argparse
import contextlib

from tfapp.cli.flags import add_format_flag, engine_of, seconds
from tfapp.cli.json_output import document, row
from tfapp.cli.several import act_on_each, add_names_or_tag, named
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application, Engine
from tfapp.errors import UnreachableError
from tfapp.launch.follow import telling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_names_or_tag(parser)
    parser.add_argument(
        "--message", metavar="TEXT", default="stop command issued", help="a reason, for the verdict"
    )
    parser.add_argument("--force", action="store_true", help="kill the programs at once")
    parser.add_argument(
        "--wait",
        metavar="S",
        type=seconds,
        help="seconds after which an application that has not ended is stopped as with --force "
        "(default: 30 more than site.global.stop.grace, and site.global.save.grace where programs "
        "save)",
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    engine = engine_of(args, shell)
    stopped: dict[str, tuple[Application, bool]] = {}

    def stop(name: str) -> str:
        before = _find(engine, name)
        live = before is None or before.live
        with contextlib.ExitStack() as stack:
            if before is not None and live and not args.force:
                stack.enter_context(telling(engine, before, shell))
            after = engine.stop(name, args.message, force=args.force, timeout=args.wait)
        stopped[name] = after, live
        if live:
            return f"{name}: {after.status.state}"
        return f"{name} was not running: {after.status.state}"

    names = named(args, engine)
    code = act_on_each(names, shell, stop)
    if args.format == "json":
        told = [stopped[name] for name in names if name in stopped]
        rows = [{**row(after), "was_live": live} for after, live in told]
        shell.print(document(applications=rows))
    return code


def _find(engine: Engine, name: str) -> Application | None:
    """None if its master does not answer: it is ended without it."""
    try:
        return engine.find(name)
    except UnreachableError:
        return None
