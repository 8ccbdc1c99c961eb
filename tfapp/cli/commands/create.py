"""Checks a package, runs it as an application called NAME, and follows it to its end: one line
for each component while it waits, then the chief's output, then the verdict. The exit code is
the verdict's.

Ctrl-C stops the application, a second one at once. What fails a check is not made at all.

  tfapp create mnist --appdef my-app --component worker 4
  tfapp create mnist --appdef my-app --detach --wait 60
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfapp.cli.engine_flags import add_engine_flag, add_follow_flags, application_name
from tfapp.cli.package_flags import add_package_flags, file_path, overrides_of, user_files
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode

if TYPE_CHECKING:
    from tfapp.cli.request import Request
    from tfapp.engines.base import Application, Engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp create`."""
    parser.add_argument("name", metavar="NAME", help="name of the new application")
    parser.add_argument(
        "--appdef",
        metavar="DIR",
        type=file_path,
        required=True,
        help="a package: a folder or a .zip",
    )
    add_package_flags(parser)
    add_launch_flags(parser)


def add_launch_flags(parser: argparse.ArgumentParser) -> None:
    """Where it runs, how long the command stays with it, or whether it runs at all."""
    add_engine_flag(parser)
    add_follow_flags(parser)
    parser.add_argument("--queue", default="default", help="YARN queue (default: %(default)s)")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be submitted; make nothing"
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Submits the package of the flags."""
    name = application_name(args.name)
    return launch(name, lambda: _request(name, args), args, shell)


def _request(name: str, args: argparse.Namespace) -> Request:
    from tfapp.cli.request import Request

    return Request(
        name=name,
        appdef=args.appdef,
        template=args.template,
        resources=args.resources,
        overrides=overrides_of(args),
        files=user_files(args),
        queue=args.queue,
    )


def launch(
    name: str, make_request: Callable[[], Request], args: argparse.Namespace, shell: Shell
) -> int:
    """Submits what is requested as the application `name` and stays with it, by the flags of
    `add_launch_flags`."""
    engine = shell.engine(args.engine)
    if args.dry_run:
        return _print(make_request(), engine, shell)
    from tfapp.cli.launching import launch_and_stay

    def start() -> Application:
        # The engine prepares itself while here is loaded what reads, checks and compiles.
        with engine.preparing(name):
            from tfapp.cli.submission import submit

            return submit(make_request(), engine, shell)

    return launch_and_stay(name, start, engine, args, shell)


def _print(request: Request, engine: Engine, shell: Shell) -> int:
    from tfapp.cli.submission import compile_request
    from tfapp.compiler.render import render_spec

    shell.out.write(render_spec(compile_request(request, shell, engine, dry_run=True).spec))
    return ExitCode.SUCCESS
