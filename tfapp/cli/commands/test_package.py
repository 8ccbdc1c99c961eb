"""Tests an app package as those that tfapp brings are tested: `tfapp validate` finds nothing, each
key of its own is described, each script defines its class, and it compiles with the fewest
instances and with one more of each component.

With --run, the package then runs as the application NAME-test, on this machine by default. The
instances that --kill names lose their containers, one after another, once all programs run. The
test passes if the application succeeds all the same; then it is destroyed, with its checkpoints.

  tfapp test-package my-package
  tfapp test-package my-package --run --kill dealer/0
"""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from tfapp.cli.flags import (
    PACKAGE_HELP,
    add_engine_options,
    add_package_flags,
    app_package,
    application_name,
    engine_of,
    request_of,
)
from tfapp.cli.shell import Shell
from tfapp.contract.names import SUCCEEDED
from tfapp.errors import ExitCode, TimedOutError, UsageError
from tfapp.problems import has_errors, text_report

if TYPE_CHECKING:
    from tfapp.engines.base import Engine

LIMIT = 1800.0  # seconds that a run may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("appdef", metavar="DIR", type=app_package, help=PACKAGE_HELP)
    add_package_flags(parser)
    run = parser.add_argument_group("the run")
    run.add_argument("--run", action="store_true", help="also run it, to its success")
    run.add_argument(
        "--kill",
        metavar="INSTANCE",
        action="append",
        default=[],
        help="an instance that loses its container meanwhile, such as worker/0; may be repeated",
    )
    add_engine_options(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.api.handle import quiet
    from tfapp.launch.package_test import findings
    from tfapp.package.load import load_package

    if args.kill and not args.run:
        raise UsageError("--kill is for an application that runs", "Give --run as well.")
    request = request_of("package-test", args, shell)
    engine = engine_of(args, shell)
    found = sorted(set(findings(request, quiet(shell), engine)))
    if found:
        shell.print(text_report(found))
    if has_errors(found):
        return ExitCode.BAD_CONFIGURATION
    shell.note(f"{args.appdef}: valid, its scripts load, and it compiles")
    if not args.run:
        return ExitCode.SUCCESS
    package = load_package(args.appdef, template=args.template, resources=args.resources).package
    name = package.name if package else args.appdef.name
    return _run(application_name(f"{name}-test"), engine, args, shell)


def _run(name: str, engine: Engine, args: argparse.Namespace, shell: Shell) -> int:
    """Runs it. What has failed is left, for its logs; nothing of it runs."""
    from tfapp.cli.commands.create import submitted
    from tfapp.cli.live import print_verdict, verdict_code
    from tfapp.launch import checkpoints
    from tfapp.launch.package_test import run_with_losses

    begun = submitted(
        name,
        lambda: contextlib.nullcontext(request_of(name, args, shell)),
        engine,
        shell,
        replace=True,
        fresh=True,
    )
    try:
        ended = run_with_losses(engine, begun, args.kill, LIMIT)
    except BaseException:
        engine.stop(name, "its test has ended")
        raise
    if ended is None:
        engine.stop(name, "its test has ended")
        raise TimedOutError(f"{name} has not ended after {LIMIT:g} s, and is stopped")
    print_verdict(shell, ended.status)
    if ended.status.state == SUCCEEDED:
        folder, schemes = ended.status.checkpoint_dir, ended.status.storage_schemes
        engine.destroy(name)
        checkpoints.settle(folder, engine, shell, True, schemes)
    return verdict_code(ended.status)
