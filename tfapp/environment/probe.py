"""Asks an interpreter for its modules and the syntax of a program (tfapp.standalone.question)."""

from __future__ import annotations

import base64
import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfapp import tools
from tfapp.frozen import frozen
from tfapp.standalone import question

LIMIT = 300.0  # seconds: a PEX unpacks itself first


class CannotRunError(Exception):
    """The interpreter did not answer. The message continues a sentence about it. `foreign`: it is
    built for another platform."""

    def __init__(self, reason: str, foreign: bool = False):
        super().__init__(reason)
        self.foreign = foreign


@frozen
class SyntaxProblem:
    """A syntax error in a program. `line` and `column` are counted from 1; 0: unknown."""

    line: int
    column: int
    text: str


@frozen
class ProbeResult:
    """The answer of an interpreter: its version, the missing `modules`, and the syntax error in the
    source."""

    version: tuple[int, ...]
    lacking: tuple[str, ...]
    syntax: SyntaxProblem | None


def ask(
    command: Sequence[str], environ: Mapping[str, str], modules: Sequence[str], source: bytes
) -> ProbeResult:
    """Runs the interpreter once, unless it is the present one. CannotRunError if it does not
    answer."""
    asked = {"modules": list(modules), "source": base64.b64encode(source).decode()}
    if tuple(command) == (sys.executable,) and "PYTHONPATH" not in os.environ:
        # `python -m` looks in the working folder, too, which a program does not.
        path = sys.path[1:] if sys.path[0] in ("", os.getcwd()) else sys.path
        return _result(question.answer(asked, path))
    try:
        done = tools.run([*command, question.__file__], environ, LIMIT, "/", json.dumps(asked))
    except tools.ToolError as error:
        foreign = error.errno in (errno.ENOENT, errno.ENOEXEC)
        verb = "cannot be run" if error.errno else "does not run"
        raise CannotRunError(f"{verb}: {error.reason}", foreign) from error
    try:
        return _result(json.loads(tools.last_line(done.text)))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise CannotRunError(f"does not run: {done.reason}") from None


def _result(answer: Mapping[str, Any]) -> ProbeResult:
    return ProbeResult(
        version=tuple(answer["version"]),
        lacking=tuple(answer["lacking"]),
        syntax=SyntaxProblem(*answer["syntax"]) if answer["syntax"] else None,
    )
