"""Stops running applications and waits until they have ended. Programs get the signal of
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
from tfapp.engines.base import Application
from tfapp.launch.stopping import telling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp stop`."""
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
        "(default: 30 more than site.global.stop.grace)",
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Stops them, and says how each ended."""
    engine = engine_of(args, shell)
    stopped: dict[str, tuple[Application, bool]] = {}

    def stop(name: str) -> str:
        before = engine.find(name)
        waits = before.live and not args.force
        with telling(engine, before, shell) if waits else contextlib.nullcontext():
            after = engine.stop(name, args.message, force=args.force, timeout=args.wait)
        stopped[name] = after, before.live
        if before.live:
            return f"{name}: {after.status.state}"
        return f"{name} was not running: {after.status.state}"

    names = named(args, engine)
    code = act_on_each(names, shell, stop)
    if args.format == "json":
        told = [stopped[name] for name in names if name in stopped]
        rows = [{**row(after), "was_live": live} for after, live in told]
        shell.print(document(applications=rows))
    return code
