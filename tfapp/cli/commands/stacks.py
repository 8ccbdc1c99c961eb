"""Shows where the programs of a running application are: the stacks of their Python threads. Those
that are at the same place are told together, with all frames of the first of them. Nothing is
restarted, and nothing appears in the output of the programs.

py-spy is asked where it is installed beside the program, or in its PATH, and may look; else
Python's own faulthandler, which tfapp has registered in the program. The output says which, and
why.

  tfapp stacks mnist
  tfapp stacks mnist worker/1
  tfapp stacks mnist --format json | jq -r '.groups[].place'
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfapp.cli.flags import add_format_flag, add_name, engine_of
from tfapp.cli.json_output import data, show
from tfapp.cli.shell import Shell

if TYPE_CHECKING:
    from tfapp.contract.stacks import Stacks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "which",
        metavar="COMPONENT[/I]",
        nargs="?",
        default="",
        help="those of a component, or of one instance such as worker/1 (default: all)",
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.engines.control import stacks

    found = stacks(engine_of(args, shell), args.name, args.which)
    groups, instances, missing = data(found.groups), data(found.instances), list(found.missing)
    text = "\n".join(_lines(found))
    told = {"missing": missing, "ended": list(found.ended)}
    show(args, shell, text, groups=groups, instances=instances, **told)


def _lines(found: Stacks) -> Iterator[str]:
    by_name = {one.instance: one for one in found.instances}
    for group in found.groups:
        names = f": {', '.join(group.instances)}" if len(group.instances) > 1 else ""
        yield f"{group.in_words(len(by_name))}{names}"
        yield from (f"  {line}" for line in by_name[group.instances[0]].lines())
        yield ""
    for name in found.missing:
        yield f"{name} has not answered"
    yield from found.ended
