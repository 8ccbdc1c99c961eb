"""The points of a grid: the file with their parameters. It has a row, or a list of rows; a row
maps parameters to values:

    - {rate: [0.1, 0.01], units: [32, 64]}
    - {rate: 1, units: 16}

A value that is a list stands for each of its values, several lists for all their combinations:
these are five points."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfapp.contract.names import MAX_NAME
from tfapp.documents import read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.documents.document import Entry, Node
from tfapp.errors import InvalidPackageError, NotFoundError
from tfapp.frozen import frozen
from tfapp.problems import Position, Problem, has_errors

MOST_POINTS = 1000
CODE = "points"
_DIGITS = 10  # of a hash, in names: with 1000 points two meet once in two million grids
STEM = MAX_NAME - 1 - _DIGITS  # characters of a grid's name
_PARAMETER = re.compile(r"[A-Za-z_][\w.-]*\Z")
_HINT = "a row is such as {rate: [0.1, 0.01], units: 32}"


class InvalidPointsError(InvalidPackageError):
    """The file of points has errors. `problems`: all findings, each with its position."""

    what = "the file of points"


@frozen
class Point:
    """One run of a grid: the text of each parameter, as it is written in the file."""

    parameters: Mapping[str, str]

    def application(self, grid: str) -> str:
        """The name of its application in the grid of this name. It is the same for the same
        parameters, wherever they stand."""
        text = json.dumps(self.parameters, sort_keys=True)
        return f"{grid}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.parameters.items())


def read_points(path: Path) -> tuple[Point, ...]:
    """The points of a file of YAML or JSON, each once, in its order. NotFoundError where it cannot
    be read, InvalidPointsError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror}", "Check --points."
        ) from error
    syntax = "json" if path.suffix == ".json" else "yaml"
    document, problems = read_document(str(path), data, syntax)
    if document is None or has_errors(problems):
        raise InvalidPointsError(problems)
    root = document.root
    found = list(map(_row, root.value if isinstance(root.value, tuple) else (root,)))
    wrong = [problem for row in found for problem in row.problems]
    count = sum(math.prod(len(values) for values in row.values.values()) for row in found)
    if not wrong and not 0 < count <= MOST_POINTS:
        message = f"expected 1 to {MOST_POINTS} points, found {count}"
        wrong = [Problem(root.at, CODE, message, hint=_HINT)]
    if wrong:
        raise InvalidPointsError(tuple(sorted(wrong)))
    return tuple({str(sorted(p.parameters.items())): p for p in _points(found)}.values())


class _Row(NamedTuple):
    values: Mapping[str, tuple[str, ...]]
    problems: tuple[Problem, ...] = ()


def _points(rows: list[_Row]) -> Iterator[Point]:
    for row in rows:
        for chosen in itertools.product(*row.values.values()):
            yield Point(dict(zip(row.values, chosen)))


def _row(node: Node) -> _Row:
    if not isinstance(node.value, dict) or not node.value:
        return _Row({}, (Problem(node.at, CODE, "expected a row of parameters", hint=_HINT),))
    problems = [one for name, entry in node.value.items() for one in _wrong(name, entry)]
    if problems:
        return _Row({}, tuple(problems))
    return _Row({name: tuple(n.text for n in _each(e.node)) for name, e in node.value.items()})


def _each(node: Node) -> tuple[Node, ...]:
    return node.value if isinstance(node.value, tuple) else (node,)


def _wrong(name: str, entry: Entry) -> Iterator[Problem]:
    """What is wrong with a parameter."""

    def problem(at: Position, message: str, hint: str = "") -> Problem:
        return Problem(at, CODE, message, hint=hint)

    if not _PARAMETER.match(name):
        hint = "a name has letters, digits, '_', '-' and '.', and begins with a letter or '_'"
        yield problem(entry.key_at, f"{name!r} is no name of a parameter", hint)
    if not _each(entry.node):
        yield problem(entry.node.at, f"{name} has no values")
    for node in _each(entry.node):
        if isinstance(node.value, (dict, tuple)) or node.value is None:
            hint = (
                "write a text, a number, true or false; leave the parameter out where it has none"
            )
            yield problem(node.at, f"expected a value of {name}", hint)
