"""Prints the Skein specification that a package compiles to, as YAML.

What it ships is brought to where its containers get it from, so `skein application submit` takes
the printed file as it is. There are no credentials in it.

  tfapp compile app-packages/tensorflow --component worker 4 > spec.yaml
"""

from __future__ import annotations

import argparse

from tfapp.cli.engine_flags import add_engine_flag, application_name
from tfapp.cli.package_flags import add_package_flags, file_path, overrides_of, user_files
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp compile`."""
    parser.add_argument(
        "appdef", metavar="APPDEF", type=file_path, help="a package: a folder or .zip"
    )
    parser.add_argument(
        "--name", default="app", help="name of the application (default: %(default)s)"
    )
    parser.add_argument("--queue", default="default", help="YARN queue (default: %(default)s)")
    add_package_flags(parser)
    add_engine_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Compiles, ships the files, prints the specification."""
    from tfapp.cli.request import Request
    from tfapp.cli.submission import compile_request
    from tfapp.compiler.render import render_spec

    request = Request(
        name=application_name(args.name),
        appdef=args.appdef,
        template=args.template,
        resources=args.resources,
        overrides=overrides_of(args),
        files=user_files(args),
        queue=args.queue,
    )
    engine = shell.engine(args.engine)
    compiled = compile_request(request, shell, engine)
    engine.ship(compiled)
    shell.out.write(render_spec(compiled.spec))
    return ExitCode.SUCCESS
