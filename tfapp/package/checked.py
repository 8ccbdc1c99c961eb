"""One document of a package after its schema check: data, and the place of every part, also of a
placeholder or one word of a list."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfapp import placeholders
from tfapp.documents.document import Document, Node
from tfapp.frozen import frozen
from tfapp.problems import Position

_NEWLINE = re.compile("\r\n|\r|\n")


@frozen
class CheckedDocument:
    """`data` is the document with its schema's types. `sound`: whether it fits its schema; if not,
    `data` is empty, and no rule uses it. `ignored`: the keys that have no effect."""

    document: Document
    data: Mapping[str, Any]
    locator: Locator
    sound: bool = True
    ignored: frozenset[Position] = frozenset()

    @classmethod
    def empty(cls, label: str, sound: bool) -> CheckedDocument:
        """A document that is missing or cannot be used."""
        document = Document.from_value({}, label)
        return cls(document, {}, Locator(document, ""), sound)

    def at(self, *path: str | int) -> Position:
        """The position of the value at `path`, or else of the nearest mapping or list around it."""
        return self.document.nearest(path, self.document.at)

    def key_at(self, *path: str | int) -> Position:
        """The position of the key of the value at `path`, or else of the nearest one around it."""
        return self.document.nearest(path)

    def text(self, *path: str | int) -> str:
        """The scalar at `path` as its author wrote it."""
        return self.document.text(path)

    def section(self, *path: str | int) -> Mapping[str, Any]:
        """The mapping at `path`, {} when it is not there."""
        found: Any = self.data
        for step in path:
            if isinstance(found, Mapping) and step not in found:
                return {}
            found = found[step]
        return found if isinstance(found, Mapping) else {}


@frozen
class Locator:
    """The text of a document, in which parts of a value are searched, from the value's beginning up
    to the next key or value. A part that is not found letter by letter (an escape, an alias, a
    value of the command line) has the position of the whole value."""

    document: Document
    text: str

    @functools.cached_property
    def _lines(self) -> list[int]:
        """The offset at which each line begins."""
        return [0, *(newline.end() for newline in _NEWLINE.finditer(self.text))]

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The offset of every key and value, sorted."""
        starts = (self._offset(position) for position in _positions(self.document.root))
        return sorted({start for start in starts if start is not None})

    def parts(self, at: Position, parts: tuple[str, ...]) -> tuple[Position, ...]:
        """The positions of `parts`, which follow each other in the value that begins at `at`."""
        start = self._offset(at)
        if start is None:
            return (at,) * len(parts)
        following = bisect.bisect_right(self._starts, start)
        end = self._starts[following] if following < len(self._starts) else len(self.text)
        found = []
        for part in parts:
            offset = self.text.find(part, start, end)
            found.append(at if offset < 0 else self._position(offset))
            start = start if offset < 0 else offset + len(part)
        return tuple(found)

    def placeholders(self, at: Position, text: str) -> tuple[Position, ...]:
        """The positions of the placeholders of the value `text` that begins at `at`."""
        spelled = tuple(text[found.start : found.end] for found in placeholders.find(text))
        return self.parts(at, spelled) if spelled else ()

    def _offset(self, position: Position) -> int | None:
        if position.file != self.document.file or not 0 < position.line <= len(self._lines):
            return None
        return self._lines[position.line - 1] + position.column - 1

    def _position(self, offset: int) -> Position:
        line = bisect.bisect_right(self._lines, offset)
        return Position(self.document.file, line, offset - self._lines[line - 1] + 1)


def _positions(node: Node) -> Iterator[Position]:
    yield node.at
    if isinstance(node.value, dict):
        for entry in node.value.values():
            yield entry.key_at
            yield from _positions(entry.node)
    elif isinstance(node.value, tuple):
        for item in node.value:
            yield from _positions(item)
