"""Forgets applications and deletes their logs, and what they alone have shipped. Their checkpoints
stay, in a place that is named; with --checkpoints those are deleted that tfapp itself has placed
below TFAPP_HOME. A running application is refused (73), or stopped first with --force.

Each is named; what keeps one does not keep the others, and the exit code is that of the first one
that is kept. With --ended, all that have ended, which may be none; with --tag, of those that have
this tag.

  tfapp destroy mnist
  tfapp destroy mnist-1 mnist-2
  tfapp destroy --tag sweep-7 --force
  tfapp destroy --ended --older-than 7d
"""

from __future__ import annotations

import argparse
import threading
import time

from tfapp.cli.durations import ended
from tfapp.cli.flags import duration, engine_of
from tfapp.cli.several import act_on_each, add_names_or_tag, named, tagged
from tfapp.cli.shell import Shell
from tfapp.engines.base import Engine
from tfapp.errors import ExitCode, TfappError, UnknownApplicationError, UsageError
from tfapp.launch import checkpoints, sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp destroy`."""
    add_names_or_tag(parser)
    parser.add_argument("--ended", action="store_true", help="all that have ended")
    parser.add_argument(
        "--older-than",
        metavar="T",
        type=duration,
        help='with --ended: of those, what ended so long ago: "7d", "12 h", "30 min"',
    )
    parser.add_argument(
        "--checkpoints",
        action="store_true",
        help="also its checkpoints, where site.global.user.checkpoint.prefix was not set",
    )
    parser.add_argument("--force", action="store_true", help="stop it first when it runs")


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Destroys them."""
    engine = engine_of(args, shell)
    names = _ended(args, engine) if args.ended or args.older_than is not None else None
    if names == ():
        shell.note("no such application has ended")
        return ExitCode.SUCCESS
    one_by_one = threading.Lock()  # each looks for what the others have shipped

    def destroy(name: str) -> str:
        if args.force:
            engine.stop(name, "destroyed", force=True)
        folder = _checkpoints(engine, name)
        with one_by_one:
            engine.destroy(name)
        sources.forget(shell, engine, name)
        more = checkpoints.settle(folder, engine, shell, args.checkpoints)
        return f"{name} is destroyed{'; ' if more else ''}{more}"

    return act_on_each(named(args, engine) if names is None else names, shell, destroy)


def _checkpoints(engine: Engine, name: str) -> str:
    """The folder of its checkpoints, "" where it has none that lasts or none that is known."""
    try:
        return engine.find(name).status.checkpoint_dir
    except UnknownApplicationError:
        raise
    except TfappError:  # damaged, or a silent master: it may be destroyed all the same
        return ""


def _ended(args: argparse.Namespace, engine: Engine) -> tuple[str, ...]:
    """Those that --ended means. What is damaged may run."""
    if args.names:
        raise UsageError("--ended takes no NAME", "It is for all that have ended.")
    if not args.ended:
        raise UsageError("--older-than is of --ended", "Give both.")
    found = engine.list() if args.tag is None else tagged(engine, args.tag)
    latest = time.time() - (args.older_than or 0)
    return tuple(
        each.name for each in found if (moment := ended(each)) is not None and moment <= latest
    )
