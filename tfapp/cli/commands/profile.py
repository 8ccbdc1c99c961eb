"""Lets all programs of a running application trace the same few seconds with TensorFlow's
profiler, and writes the traces where TensorBoard's page Profile shows them: below
plugins/profile/RUN of the checkpoint folder, one for each instance. The programs need no change,
and go on.

TensorBoard shows them where its plug-in for that is installed: `pip install xprof`.

  tfapp profile mnist
  tfapp profile mnist worker/0 worker/1 --seconds 2
  tfapp tensorboard mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_format_flag, add_name, engine_of
from tfapp.cli.json_output import data, show
from tfapp.cli.shell import Shell
from tfapp.contract.profiles import SECONDS
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "which",
        metavar="COMPONENT[/I]",
        nargs="*",
        help="those of components, or of instances such as worker/1 (default: all)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=SECONDS,
        help="seconds that are traced, at most 60 (default: 5)",
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.engines.control import profile

    found = profile(engine_of(args, shell), args.name, args.which, args.seconds)
    text = "\n".join(found.lines(args.name))
    instances, missing = data(found.instances), list(found.missing)
    show(args, shell, text, run=found.run, instances=instances, missing=missing)
    return ExitCode.SUCCESS if found.folders else ExitCode.NOT_FOUND
