"""An error in a user's file, as a value: position, message, rule and hint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ERROR = "error"
WARNING = "warning"


class Position(NamedTuple):
    """A place in a document. `line` and `column` count from 1; 0 means the whole file,
    or, for a value given on the command line, that there is no file at all."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(NamedTuple):
    """One finding. Problems sort by place, then by code."""

    position: Position
    code: str
    message: str
    severity: str = ERROR
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.position}: {self.severity}: {self.message} [{self.code}]"


def has_errors(problems: Iterable[Problem]) -> bool:
    """True when at least one of `problems` is an error, not a warning."""
    return any(problem.severity == ERROR for problem in problems)


def text_report(problems: Iterable[Problem]) -> str:
    """One line for each finding, its hint indented below."""
    lines = []
    for problem in problems:
        lines.append(str(problem))
        if problem.hint:
            lines.append(f"  {problem.hint}")
    return "\n".join(lines)
