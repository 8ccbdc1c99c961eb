"""Checks a package, runs it as an application called NAME, and follows it to its end. Shows one
line for each component until the programs run, then the output of the chief (without a chief: of
the first worker), then the verdict. The exit code is that of the verdict.

If a check fails, nothing is created. Ctrl-C stops the application; a second Ctrl-C kills its
programs at once.

With --replace, an application of this name is stopped and destroyed before the new one starts, but
only if the new package has no errors. Its checkpoints are kept, and the new programs may go on from
them; with --fresh they are moved aside.

A file or folder that --appdef names comes before a package of tfapp with the same name.

  tfapp create mnist --appdef my-app --component worker 4
  tfapp create digits --appdef keras-jax --files train.py
  tfapp create mnist --appdef my-app --detach --wait 60
  tfapp create mnist --appdef my-app --replace
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tfapp.cli.flags import (
    PACKAGE_HELP,
    add_engine_options,
    add_follow_flags,
    add_package_flags,
    app_package,
    application_name,
    engine_of,
    note_unused_options,
    request_of,
)
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode

if TYPE_CHECKING:
    from tfapp.engines.base import Application, Engine
    from tfapp.launch.submission import Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the new application")
    parser.add_argument(
        "--appdef",
        metavar="DIR",
        type=app_package,
        required=True,
        help=PACKAGE_HELP,
    )
    add_package_flags(parser)
    add_launch_flags(parser)


def add_launch_flags(parser: argparse.ArgumentParser) -> None:
    """Flags for the engine, for the time that the command stays with the application, and for a dry
    run."""
    add_engine_options(parser)
    add_follow_flags(parser)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="first stop and destroy the application of this name; keep its checkpoints",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="move aside the checkpoints of an earlier application of this name",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be submitted, and create nothing, not even the files that it "
        "refers to (`tfapp compile` creates them)",
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    name = application_name(args.name)
    return launch(name, lambda: contextlib.nullcontext(request_of(name, args, shell)), args, shell)


def launch(
    name: str,
    requested: Callable[[], AbstractContextManager[Request]],
    args: argparse.Namespace,
    shell: Shell,
) -> int:
    """Submits what is requested as the application `name` and stays with it, by the flags of
    `add_launch_flags`."""
    engine = engine_of(args, shell)
    if args.dry_run:
        with requested() as request:
            return _print(request, engine, shell)
    note_unused_options(args, shell)
    from tfapp.cli.live import launch_and_stay

    def start() -> Application:
        return submitted(name, requested, engine, shell, args.replace, args.fresh)

    return launch_and_stay(name, start, engine, args, shell)


def submitted(
    name: str,
    requested: Callable[[], AbstractContextManager[Request]],
    engine: Engine,
    shell: Shell,
    replace: bool = False,
    fresh: bool = False,
) -> Application:
    """Submits what is requested as the application `name`, and remembers what it was made from.
    `replace`, `fresh`, errors: those of tfapp.launch.submission.submit."""
    # The engine prepares itself while here is loaded what reads, checks and compiles.
    with engine.preparing(name):
        from tfapp.launch import sources
        from tfapp.launch.submission import submit

        with requested() as request:
            seen = sources.stamps(request, shell.cwd)
            appdef = request.appdef
            application = submit(request, engine, shell, replace, fresh)
        sources.remember(shell, application, appdef, seen)
        return application


def _print(request: Request, engine: Engine, shell: Shell) -> int:
    from tfapp.launch.submission import compile_request

    compiled = compile_request(request, shell, engine, dry_run=True)
    shell.print(engine.rendered(compiled), end="")
    return ExitCode.SUCCESS
