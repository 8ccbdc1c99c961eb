"""Changes the number of instances of a running application. The training goes on until all
newcomers are ready; then the cluster forms anew, and all programs go on from their checkpoint.
Newcomers that are not ready within site.global.gang.timeout are withdrawn. With fewer instances
the highest numbers leave at once. The next `tfapp start` has the numbers of `create` again.

  tfapp flex mnist --component worker +1
  tfapp flex mnist --component worker 2 --component ps 1
"""

from __future__ import annotations

import argparse
import re

from tfapp.cli.flags import add_name, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode, UsageError

_COUNT = re.compile(r"[+-]?[0-9]+\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp flex`."""
    add_name(parser)
    parser.add_argument(
        "--component",
        dest="components",
        metavar=("COMPONENT", "COUNT"),
        nargs=2,
        action="append",
        required=True,
        help="so many instances: 3, or +1 or -1 to what there is; may be repeated",
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Asks for one component after the other, and says what comes of it."""
    from tfapp.engines.control import flex

    for _, count in args.components:
        if not _COUNT.match(count):
            raise UsageError(f"{count!r} is not a number of instances", "Give 3, +1 or -1.")
    engine = engine_of(args, shell)
    for component, count in args.components:
        shell.note(flex(engine, args.name, component, count))
    return ExitCode.SUCCESS
