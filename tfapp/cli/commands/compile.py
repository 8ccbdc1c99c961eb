"""Compiles a package and prints the result as YAML: a Skein specification, or Kubernetes objects.

The specification can be given to `skein application submit` at any time. The files that it ships
are written to TFAPP_HOME/compiled, and stay there until you delete that folder. With
--engine kubernetes the command prints the objects that `tfapp create` creates and one pod of each
component, and writes no files. The output has no credentials and no values of Secrets.

  tfapp compile app-packages/tensorflow --component worker 4 > spec.yaml
"""

from __future__ import annotations

import argparse

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
from tfapp.engines import runs_images


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("appdef", metavar="APPDEF", type=app_package, help=PACKAGE_HELP)
    parser.add_argument(
        "--name", default="app", help="name of the application (default: %(default)s)"
    )
    add_package_flags(parser)
    add_engine_options(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Compiles, keeps the files that a specification names, prints."""
    from tfapp.launch.submission import compile_for_skein, compile_request

    request = request_of(application_name(args.name), args, shell)
    engine = engine_of(args, shell)
    if runs_images(args.engine):
        compiled = compile_request(request, shell, engine, dry_run=True)
    else:
        compiled = compile_for_skein(request, shell, engine)
    shell.print(engine.rendered(compiled), end="")
