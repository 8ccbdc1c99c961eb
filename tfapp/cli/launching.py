"""How a command that launches an application stays with it: to its end, until it runs, or not
at all."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tfapp.cli.following import Feed, has_ended, is_running, wait_until
from tfapp.cli.live import follow
from tfapp.cli.shell import Shell
from tfapp.cli.stopper import Stopper
from tfapp.cli.verdicts import not_running_in_time, print_verdict, verdict_code
from tfapp.engines.base import Application, Engine
from tfapp.errors import ExitCode


def launch_and_stay(
    name: str,
    start: Callable[[], Application],
    engine: Engine,
    args: argparse.Namespace,
    shell: Shell,
) -> int:
    """Launches the application `name` by `start`, then does what `--detach` and `--wait` say.
    Returns the exit code."""
    if not args.detach:
        # A Ctrl-C while it is launched stops it once it is.
        with Stopper(shell, engine, name) as stopper:
            return follow(shell, engine, start(), wait=args.wait, stopper=stopper)
    application = start()
    for link in application.links:
        shell.note(f"{application.name}: {link.address}")
    if args.wait is not None:
        return _wait_for_running(application, engine, args.wait, shell)
    shell.note(f"{application.name}: submitted; `tfapp logs -f {application.name}` follows it")
    return ExitCode.SUCCESS


def _wait_for_running(
    application: Application, engine: Engine, seconds: float, shell: Shell
) -> int:
    feed = Feed(engine, application.name, application.run)
    reached = wait_until(feed, is_running, timeout=seconds)
    if reached is None:
        raise not_running_in_time(application.name, seconds)
    if has_ended(reached):
        print_verdict(shell, reached.status)
        return verdict_code(reached.status)
    shell.note(f"{application.name}: RUNNING")
    return ExitCode.SUCCESS
