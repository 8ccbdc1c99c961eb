"""Errors of a Python call with all their details: a traceback does not print hints."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator

from tfapp.api.arguments import Call
from tfapp.disk import in_words
from tfapp.errors import InvalidPackageError, TfappError
from tfapp.launch.caller import Caller, calling_process
from tfapp.problems import Position, Problem, text_report


@contextlib.contextmanager
def told_in_full() -> Iterator[None]:
    """Adds the hint, or all findings, to the message of an error that leaves the block. An OSError
    that a command would tell in a sentence becomes an UnavailableError with that sentence."""
    try:
        with _disk_errors():
            yield
    except InvalidPackageError as error:
        problems = [_of_argument(problem) for problem in error.problems]
        error.args = (_in_python(f"{error.message}\n{text_report(problems)}"),)
        raise
    except TfappError as error:
        text = f"{error.message}\n{error.hint}" if error.hint else error.message
        error.args = (_in_python(text),)
        raise


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except TfappError:  # some are OSErrors as well
        raise
    except OSError as error:
        known = in_words(error, calling_process(Caller).home)
        if known is None:
            raise
        raise known from error


def _in_python(text: str) -> str:
    """`text` with the arguments of calls in place of the flags of the command line, but for whole
    commands, which stand between backticks."""
    parts = text.split("`")
    parts[::2] = [_FLAG.sub(_argument, part) for part in parts[::2]]
    return "`".join(parts)


def _argument(flag: re.Match[str]) -> str:
    name = flag[1].replace("-", "_")
    if name not in _ARGUMENTS:
        return flag[0]
    return f"{name}=True" if _ARGUMENTS[name] == "bool" else f"{name}="


_ARGUMENTS = {field.name: field.type for field in dataclasses.fields(Call)}
_FLAG = re.compile(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)\b")


def _of_argument(problem: Problem) -> Problem:
    """A finding about a flag of the command line, moved to the argument with the same meaning."""
    flag, _, value = problem.position.file.partition(" ")
    name = flag.removeprefix("--").replace("-", "_")
    if not flag.startswith("--") or name not in {field.name for field in dataclasses.fields(Call)}:
        return problem
    return problem._replace(position=Position(f"{name}={value!r}"))
