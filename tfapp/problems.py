"""Findings in a user's files as values: position, message, code of the rule, and hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ERROR = "error"
WARNING = "warning"


class Position(NamedTuple):
    """A place in a document. `line` and `column` count from 1. 0 means the whole file; or, if
    `file` names an option, a value on the command line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(NamedTuple):
    """One finding. Problems are sorted by position, then by code."""

    position: Position
    code: str
    message: str
    severity: str = ERROR
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.position}: {self.severity}: {self.message} [{self.code}]"


def first_of(names: Sequence[object], most: int) -> str:
    """The first `most` of some names, for a message: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def has_errors(problems: Iterable[Problem]) -> bool:
    """Whether at least one of `problems` is an error, not only a warning."""
    return any(problem.severity == ERROR for problem in problems)


def text_report(problems: Iterable[Problem]) -> str:
    """The findings as text: one line for each, with its hint indented below."""
    lines = []
    for problem in problems:
        lines.append(str(problem))
        if problem.hint:
            lines.append(f"  {problem.hint}")
    return "\n".join(lines)
