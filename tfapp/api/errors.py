"""Errors of a Python call with all their details: a traceback does not print hints."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from tfapp.api.arguments import Call
from tfapp.errors import InvalidPackageError, TfappError
from tfapp.problems import Position, Problem, text_report


@contextlib.contextmanager
def told_in_full() -> Iterator[None]:
    """Adds the hint, or all findings, to the message of an error that leaves the block."""
    try:
        yield
    except InvalidPackageError as error:
        problems = [_of_argument(problem) for problem in error.problems]
        error.args = (f"{error.message}\n{text_report(problems)}",)
        raise
    except TfappError as error:
        error.args = (f"{error.message}\n{error.hint}" if error.hint else error.message,)
        raise


def _of_argument(problem: Problem) -> Problem:
    """A finding about a flag of the command line, moved to the argument with the same meaning."""
    flag, _, value = problem.position.file.partition(" ")
    name = flag.removeprefix("--").replace("-", "_")
    if not flag.startswith("--") or name not in {field.name for field in dataclasses.fields(Call)}:
        return problem
    return problem._replace(position=Position(f"{name}={value!r}"))
