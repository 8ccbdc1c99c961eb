"""A parsed document: plain data, and for every part of it the place it was written at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

from tfapp.documents.scalars import ScalarValue, source_text
from tfapp.frozen import frozen
from tfapp.problems import Position, Problem

Path = tuple[Union[str, int], ...]  # ("components", 0, "name")


class Entry(NamedTuple):
    """One key of a mapping: where the key stands, and its value."""

    key_at: Position
    node: Node


@frozen
class Node:
    """One value. `text` and `plain` are a scalar's: its source text without quotes, and whether
    it stood there unquoted."""

    at: Position
    value: ScalarValue | tuple[Node, ...] | dict[str, Entry]
    text: str = ""
    plain: bool = False


@frozen
class Document:
    """An immutable document. A path is a tuple of keys and list indices; () is the whole.

    Every method that takes a path raises KeyError when the document has nothing there.
    """

    file: str
    root: Node

    @classmethod
    def from_value(cls, value: Any, label: str) -> Document:
        """A document of Python values, which stand at no line. TypeError for a value that is
        neither a scalar, a mapping with text keys, nor a list."""
        return cls(label, _node_of(value, Position(label)))

    @functools.cached_property
    def data(self) -> Any:
        """The document as dicts, lists and scalars. Do not change it."""
        return plain_data(self.root)

    def node(self, path: Path) -> Node:
        """The value at `path`."""
        node = self.root
        for step in path:
            node = _child(node, step, path)
        return node

    def at(self, path: Path) -> Position:
        """The position at which the value at `path` begins."""
        return self.node(path).at

    def key_at(self, path: Path) -> Position:
        """The position at which the key of the value at `path` begins; for a list item or the whole
        document, that of the value itself."""
        if not path:
            return self.root.at
        parent = self.node(path[:-1])
        if isinstance(parent.value, dict) and path[-1] in parent.value:
            return parent.value[str(path[-1])].key_at
        return self.at(path)

    def text(self, path: Path) -> str:
        """The scalar at `path` as its author wrote it, without quotes: "1.10" for `1.10`.
        KeyError also for a mapping or a list."""
        node = self.node(path)
        if isinstance(node.value, (dict, tuple)):
            raise KeyError(path)
        return node.text

    def plain(self, path: Path) -> bool:
        """Whether the scalar at `path` is unquoted, so that its type follows from its text."""
        return self.node(path).plain

    def with_value(self, path: Path, value: Any, position: Position) -> Document:
        """A copy with `value` at `path`, as if it stood at `position`. Mappings that lack on the
        way are made; where something else than a mapping is in the way, nothing changes."""
        return Document(self.file, _replaced(self.root, path, _node_of(value, position), position))


def plain_data(node: Node) -> Any:
    """`node` as dicts, lists and scalars, newly made."""
    if isinstance(node.value, dict):
        return {key: plain_data(entry.node) for key, entry in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain_data(item) for item in node.value]
    return node.value


def _child(node: Node, step: str | int, path: Path) -> Node:
    if isinstance(node.value, dict) and isinstance(step, str) and step in node.value:
        return node.value[step].node
    if isinstance(node.value, tuple) and isinstance(step, int) and 0 <= step < len(node.value):
        return node.value[step]
    raise KeyError(path)


def _replaced(node: Node, path: Path, new: Node, position: Position) -> Node:
    if not path:
        return new
    if node.value is None:
        node = Node(node.at, {})
    if not isinstance(node.value, dict):
        return node
    key = str(path[0])
    old = node.value.get(key, Entry(position, Node(position, {})))
    key_at = position if len(path) == 1 else old.key_at
    entry = Entry(key_at, _replaced(old.node, path[1:], new, position))
    return dataclasses.replace(node, value={**node.value, key: entry})


def _node_of(value: Any, at: Position) -> Node:
    if isinstance(value, Mapping):
        return Node(at, {_text_key(key): Entry(at, _node_of(v, at)) for key, v in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return Node(at, tuple(_node_of(item, at) for item in value))
    if value is None or isinstance(value, (str, int, float)):
        return Node(at, value, source_text(value), plain=not isinstance(value, str))
    raise TypeError(f"a document has no values of type {type(value).__name__}: {value!r}")


def _text_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, found {key!r}")
    return key


def add_entry(
    entries: dict[str, Entry], key: str, key_at: Position, node: Node, problems: list[Problem]
) -> None:
    """Adds one key. The first of two equal keys stands; the second is a problem."""
    if key not in entries:
        entries[key] = Entry(key_at, node)
        return
    problems.append(
        Problem(
            key_at,
            "duplicate-key",
            f"the key '{key}' stands here a second time",
            hint=f"the first is at line {entries[key].key_at.line}; keep one of the two",
        )
    )
