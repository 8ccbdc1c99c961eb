"""Deletes the records and logs of applications, and the files that were shipped for them only. It
keeps their checkpoints and prints the folder; --checkpoints deletes those too, if tfapp has chosen
the folder. A running application is an error (73), unless --force stops it first.

If one application cannot be deleted, the others are deleted all the same, and the exit code is that
of the first error. --ended selects all applications that have ended, --tag those with a tag; with
both, an application must match both.

  tfapp destroy mnist
  tfapp destroy mnist-1 mnist-2
  tfapp destroy --tag sweep-7 --force
  tfapp destroy --ended --older-than 7d
"""

from __future__ import annotations

import argparse
import threading
import time

from tfapp.cli.console import ended
from tfapp.cli.flags import duration, engine_of
from tfapp.cli.several import act_on_each, add_names_or_tag, named, tagged
from tfapp.cli.shell import Shell
from tfapp.engines.base import Engine
from tfapp.errors import ExitCode, TfappError, UnknownApplicationError, UsageError
from tfapp.launch import checkpoints, on_end, sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_names_or_tag(parser)
    parser.add_argument("--ended", action="store_true", help="all applications that have ended")
    parser.add_argument(
        "--older-than",
        metavar="T",
        type=duration,
        help='with --ended: only those that ended longer ago than this: "7d", "12 h", "30 min"',
    )
    parser.add_argument(
        "--checkpoints",
        action="store_true",
        help="delete the checkpoints too, if site.global.user.checkpoint.prefix was not set",
    )
    parser.add_argument("--force", action="store_true", help="stop running applications first")


def run(args: argparse.Namespace, shell: Shell) -> int:
    engine = engine_of(args, shell)
    names = _ended(args, engine) if args.ended or args.older_than is not None else None
    if names == ():
        shell.note("no such application has ended")
        return ExitCode.SUCCESS
    one_by_one = threading.Lock()  # each looks for what the others have shipped

    def destroy(name: str) -> str:
        if args.force:
            engine.stop(name, "destroyed", force=True)
        folder, schemes = _checkpoints(engine, name)
        with one_by_one:
            engine.destroy(name)
        sources.forget(shell, engine, name)
        on_end.forget(shell, engine.name, name)
        more = checkpoints.settle(folder, engine, shell, args.checkpoints, schemes)
        return f"{name} is destroyed{'; ' if more else ''}{more}"

    return act_on_each(named(args, engine) if names is None else names, shell, destroy)


def _checkpoints(engine: Engine, name: str) -> tuple[str, str]:
    """The folder of its checkpoints, "" where it has none that lasts or none that is known; and the
    schemes of URLs that it opens besides tfapp's own."""
    try:
        status = engine.find(name).status
        return status.checkpoint_dir, status.storage_schemes
    except UnknownApplicationError:
        raise
    except TfappError:  # damaged, or a silent master: it may be destroyed all the same
        return "", ""


def _ended(args: argparse.Namespace, engine: Engine) -> tuple[str, ...]:
    """The applications that --ended selects. Damaged ones are left out, because they may run."""
    if args.names:
        raise UsageError("--ended takes no NAME", "It is for all that have ended.")
    if not args.ended:
        raise UsageError("--older-than is of --ended", "Give both.")
    found = engine.list() if args.tag is None else tagged(engine, args.tag)
    latest = time.time() - (args.older_than or 0)
    return tuple(
        each.name for each in found if (moment := ended(each)) is not None and moment <= latest
    )
