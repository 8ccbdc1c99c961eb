"""Changes the number of instances of a running application. The training goes on until all new
instances are ready. Then the next generation begins: all programs start again from their
checkpoint. New instances that are not ready within site.global.gang.timeout are given up. If
instances are removed, those with the highest numbers, the next generation begins at once. A
component keeps as many as yarn.component.instances.min says. The next `tfapp start` uses the
numbers of `tfapp create` again.

  tfapp flex mnist --component worker +1
  tfapp flex mnist --component worker 2 --component ps 1
"""

from __future__ import annotations

import argparse
import re

from tfapp.cli.flags import add_name, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import UsageError

_COUNT = re.compile(r"[+-]?[0-9]+\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "--component",
        dest="components",
        metavar=("COMPONENT", "COUNT"),
        nargs=2,
        action="append",
        required=True,
        help="the new number of instances, such as 3, or a change, such as +1 or -1; may be "
        "repeated",
    )


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Asks for one component after the other, and says what comes of it."""
    from tfapp.engines.control import flex

    for _, count in args.components:
        if not _COUNT.match(count):
            raise UsageError(f"{count!r} is not a number of instances", "Give 3, +1 or -1.")
    engine = engine_of(args, shell)
    for component, count in args.components:
        shell.note(flex(engine, args.name, component, count))
