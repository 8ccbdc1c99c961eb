"""Shows what has happened to an application: the verdict, with the last lines of the program that
caused it, the number of restarts, and all events with their times. Works while the application runs
and after its end.

  tfapp diagnostics mnist
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tfapp.cli.console import when
from tfapp.cli.flags import add_shown, status_of
from tfapp.cli.json_output import data, show
from tfapp.cli.shell import Shell
from tfapp.contract.status import ApplicationStatus

add_arguments = add_shown


def run(args: argparse.Namespace, shell: Shell) -> None:
    status = status_of(args, shell)
    told = data(status)
    show(args, shell, "\n".join(_lines(status)), **{key: told[key] for key in _TOLD})


_TOLD = ("name", "state", "generation", "restarts", "losses", "verdict", "timeline")


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
