"""One document of a package after its schema check: data, and the place of every part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfapp.documents.document import Document, Path
from tfapp.frozen import frozen
from tfapp.package.locate import Locator
from tfapp.problems import Position


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
        return self._nearest(self.document.at, path)

    def key_at(self, *path: str | int) -> Position:
        """The position of the key of the value at `path`, or else of the nearest one around it."""
        return self._nearest(self.document.key_at, path)

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

    def _nearest(self, lookup: Any, path: Path) -> Position:
        for length in range(len(path), -1, -1):
            try:
                return lookup(path[:length])
            except KeyError:
                continue
        raise AssertionError("the whole document has a place")
