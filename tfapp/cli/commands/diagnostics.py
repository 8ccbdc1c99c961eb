"""Shows what has happened to an application: the verdict, with the last lines of the program that
caused it, the number of restarts, and all events with their times. Works while the application runs
and after its end.

  tfapp diagnostics mnist
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tfapp.cli.console import when
from tfapp.cli.flags import add_format_flag, add_name, add_run_flag, engine_of
from tfapp.cli.json_output import data, document
from tfapp.cli.shell import Shell
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp diagnostics`."""
    add_name(parser)
    add_run_flag(parser)
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints what the engine knows."""
    status = engine_of(args, shell).find(args.name, args.run).status
    if args.format == "json":
        told = data(status)
        shell.print(document(**{key: told[key] for key in (*_TOLD, "timeline")}))
    else:
        shell.print("\n".join(_lines(status)))
    return ExitCode.SUCCESS


_TOLD = ("name", "state", "generation", "restarts", "losses", "verdict")


def _lines(status: ApplicationStatus) -> Iterator[str]:
    verdict = status.verdict
    yield verdict.summary if verdict else f"{status.name} is {status.state}."
    yield _restarts(status)
    if verdict and verdict.cause and verdict.cause.last_lines:
        yield f"\nLast lines of {verdict.cause.instance}:"
        yield from (f"  {line}" for line in verdict.cause.last_lines.splitlines())
    if status.timeline:
        yield ""
        for moment in status.timeline:
            yield f"{when(moment.time)}  +{moment.time - status.started:.1f} s  {moment.text}"


def _restarts(status: ApplicationStatus) -> str:
    if status.generation is None:
        return "Its generation and restarts are unknown: its coordinator left no word of them."
    return (
        f"Generation {status.generation}; restarts: {status.restarts} after failures of programs, "
        f"{status.losses} after losses by the infrastructure."
    )
