"""Asks an interpreter for its modules and the syntax of a program (tfapp.environment.question)."""

from __future__ import annotations

import base64
import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfapp.environment import question
from tfapp.frozen import frozen

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
        done = subprocess.run(
            [*command, question.__file__],
            env=dict(environ),
            cwd="/",
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
    except OSError as error:
        foreign = error.errno in (errno.ENOENT, errno.ENOEXEC)
        raise CannotRunError(f"cannot be run: {error.strerror}", foreign) from error
    except subprocess.TimeoutExpired:
        raise CannotRunError(f"did not answer within {LIMIT:g} s") from None
    try:
        return _result(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        words = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise CannotRunError(f"does not run: {words[0]}") from None


def _result(answer: Mapping[str, Any]) -> ProbeResult:
    return ProbeResult(
        version=tuple(answer["version"]),
        lacking=tuple(answer["lacking"]),
        syntax=SyntaxProblem(*answer["syntax"]) if answer["syntax"] else None,
    )
