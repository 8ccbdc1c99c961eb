"""Runs one program many times with different parameters, N runs at a time, and prints a table of
their results. Each run, a point of the grid, is an application of its own: with a name, a verdict,
logs and a checkpoint folder. Options and program are those of `tfapp run`, with one worker by
default.

--points names a file of YAML or JSON. A row of it maps parameters to values; a value that is a list
stands for each of its values, several lists for all their combinations:

  - {rate: [0.1, 0.01], units: [32, 64]}
  - {rate: 1, units: 16}

The program gets them as its last arguments: --rate=0.1 --units=32. A parameter with a dot in its
name is a key of appConfig instead, such as env.RATE, a variable, or of the resources (yarn.memory).

A failed program is repeated as any application's, by --retries and --losses. Ctrl-C stops all runs.
The same command once more goes on: it keeps what has succeeded, follows what runs, and begins anew,
from their checkpoints and with the present files, those that have failed or were stopped.

  tfapp grid train.py --points points.yaml --at-once 4
  tfapp grid train.py --points points.yaml --engine yarn -w 2 --gpus 1 -- --epochs 10
  tfapp grid digits:train --points points.yaml --name digits --format json
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfapp.cli.commands.create import submitted
from tfapp.cli.commands.run import add_program_flags, named_after, program_of, requested
from tfapp.cli.console import columns, duration, ended, number
from tfapp.cli.flags import (
    add_engine_options,
    add_format_flag,
    application_name,
    engine_of,
    file_path,
    note_unused_options,
)
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.contract.terminal import plain
from tfapp.errors import ExitCode
from tfapp.package.overrides import RESOURCE_PREFIXES

if TYPE_CHECKING:
    from tfapp.contract.metrics import Measure
    from tfapp.engines.base import Application
    from tfapp.launch.grid import Grid
    from tfapp.launch.points import Point
    from tfapp.launch.submission import Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "%(prog)s SCRIPT|MODULE:FUNCTION|-m MODULE --points FILE [--at-once N]\n"
        "                  [options] [-- ARGS ...]"
    )
    parser.add_argument(
        "--points", metavar="FILE", type=file_path, required=True, help="the parameters of the runs"
    )
    parser.add_argument(
        "--at-once", metavar="N", type=_at_once, default=2, help="runs at a time (default: 2)"
    )
    add_program_flags(parser)
    add_engine_options(parser)
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="begin all runs anew, also those that have succeeded; move their checkpoints aside",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check all points and print them; create nothing"
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.api.handle import quiet
    from tfapp.compiler.options import application_stem
    from tfapp.launch.grid import Grid
    from tfapp.launch.points import STEM, read_points
    from tfapp.launch.submission import compile_request

    points = read_points(shell.cwd / args.points)
    if (args.workers, args.appdef, args.ps) == (None, None, None):
        args.workers = 1
    program = program_of(_of_point(args, points[0]), shell)
    name = args.name or application_stem(named_after(program, args))[:STEM]
    application_name(points[0].application(name))
    args.tag = [*args.tag, name]
    engine = engine_of(args, shell)
    note_unused_options(args, shell)
    first = [shell]

    def once() -> Shell:
        """What is said of a submission is said of the first one alone."""
        return first.pop() if first else quiet(shell)

    @contextlib.contextmanager
    def asked_for(point: Point, caller: Shell) -> Iterator[Request]:
        own = point.application(name)
        with requested(own, program, _of_point(args, point), caller) as request:
            yield _with_keys(request, point)

    def submit(point: Point) -> Application:
        caller = once()
        own = point.application(name)
        return submitted(own, lambda: asked_for(point, caller), engine, caller, fresh=args.fresh)

    def check(point: Point, caller: Shell) -> None:
        with asked_for(point, caller) as request:
            compile_request(request, caller, engine, dry_run=True)

    grid = Grid(name, points, engine, shell, submit, lambda point: check(point, quiet(shell)))
    if not args.dry_run:
        grid.run(args.at_once, args.fresh)
    else:
        for point in points:
            check(point, once())
    _show(name, grid, args, shell)
    if grid.error is not None:
        raise grid.error
    if grid.asked:
        return ExitCode.INTERRUPTED
    verdicts = (each.status.verdict for each in grid.found.values())
    codes = (verdict.exit_code if verdict else ExitCode.FAILED for verdict in verdicts)
    return next((code for code in codes if code), ExitCode.SUCCESS)


def _of_point(args: argparse.Namespace, point: Point) -> argparse.Namespace:
    """The flags of `tfapp run` for a point: with its parameters among the program's arguments."""
    words = [f"--{name}={value}" for name, value in point.parameters.items() if "." not in name]
    return argparse.Namespace(**{**vars(args), "passed": [*args.passed, *words]})


def _with_keys(request: Request, point: Point) -> Request:
    """`request` with the parameters of a point that are keys."""
    keys = [pair for pair in point.parameters.items() if "." in pair[0]]
    of_resources = [pair for pair in keys if pair[0].startswith(RESOURCE_PREFIXES)]
    given = request.overrides
    overrides = dataclasses.replace(
        given,
        options=(*given.options, *(pair for pair in keys if pair not in of_resources)),
        resopts=(*given.resopts, *of_resources),
        places={
            **given.places,
            **{f"--option {key}": f"the parameter {key}" for key, _ in keys},
            **{f"--resopt {key}": f"the parameter {key}" for key, _ in of_resources},
        },
    )
    return dataclasses.replace(request, overrides=overrides)


def _show(name: str, grid: Grid, args: argparse.Namespace, shell: Shell) -> None:
    """Prints what has become of all points, in their order."""
    from tfapp.launch.history import first_metrics

    rows = [(own, point, grid.found.get(own)) for own, point in grid.points.items()]
    metrics = {own: first_metrics(each.status) if each else {} for own, _, each in rows}
    if args.format == "json":
        told = [_data(own, point, each, metrics[own]) for own, point, each in rows]
        shell.print(document(grid=name, points=told))
        return
    parameters = list(dict.fromkeys(key for _, point, _ in rows for key in point.parameters))
    measured = list(dict.fromkeys(key for own in metrics.values() for key in own))
    measured = [key for key in measured if not key.endswith(" seconds")]
    alone = len({key.partition(" ")[0] for key in measured}) == 1  # one component
    shown = [key.partition(" ")[2] if alone else key for key in measured]
    header = ["NAME", *parameters, "STATE", "DURATION", *shown]
    lines = [
        [
            own,
            *(point.parameters.get(key, "-") for key in parameters),
            *((each.status.state, duration(each)) if each else ("-", "-")),
            *(number(metrics[own].get(key)) for key in measured),
        ]
        for own, point, each in rows
    ]
    shell.print(plain(columns(header, lines, shell.width)))


def _data(
    own: str, point: Point, found: Application | None, metrics: Mapping[str, Measure]
) -> dict[str, Any]:
    status = found.status if found else None
    verdict = status.verdict if status else None
    return {
        "name": own,
        "parameters": dict(point.parameters),
        "id": found.id or None if found else None,
        "state": status.state if status else None,
        "exit_code": verdict.exit_code if verdict else None,
        "summary": verdict.summary if verdict else None,
        "started": status.started or None if status else None,
        "ended": ended(found) if found else None,
        "checkpoint_dir": status.checkpoint_dir or None if status else None,
        "metrics": metrics,
    }


def _at_once(text: str) -> int:
    from tfapp.launch.grid import MOST_AT_ONCE

    if not text.isdecimal() or not 0 < int(text) <= MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)
