"""A parsed document: plain data, with the position of every part."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from tfapp.documents.scalars import ScalarValue, source_text
from tfapp.frozen import frozen
from tfapp.problems import Position, Problem

Path = tuple[Union[str, int], ...]  # ("components", 0, "name")


class Entry(NamedTuple):
    """A key of a mapping with its position, and its value."""

    key_at: Position
    node: Node


@frozen
class Node:
    """A value. For a scalar, `text` is its source text without quotes, and `plain` tells whether it
    was unquoted."""

    at: Position
    value: ScalarValue | tuple[Node, ...] | dict[str, Entry]
    text: str = ""
    plain: bool = False


@frozen
class Document:
    """An immutable document. A path is a tuple of keys and list indices; () is the whole document.

    Methods raise KeyError for a path that does not exist.
    """

    file: str
    root: Node

    @classmethod
    def from_value(cls, value: Any, label: str) -> Document:
        """A document of Python values, without lines. TypeError for a value that is no scalar, list
        or mapping with text keys."""
        return cls(label, _node_of(value, Position(label)))

    @functools.cached_property
    def data(self) -> Any:
        """The document as dicts, lists and scalars. It must not be modified."""
        return plain_data(self.root)

    def node(self, path: Path) -> Node:
        node = self.root
        for step in path:
            node = _child(node, step, path)
        return node

    def nearest(self, path: Path, of: Callable[[Path], Position] | None = None) -> Position:
        """The position of the key of the value at `path`, or else of the nearest one around it.
        `of`: another method of the document that gives positions."""
        for length in range(len(path), 0, -1):
            with contextlib.suppress(KeyError):
                return (of or self.key_at)(path[:length])
        return self.root.at

    def at(self, path: Path) -> Position:
        return self.node(path).at

    def key_at(self, path: Path) -> Position:
        """The position of the key of the value at `path`. For a list item and the whole document,
        that of the value."""
        if not path:
            return self.root.at
        parent = self.node(path[:-1])
        if isinstance(parent.value, dict) and path[-1] in parent.value:
            return parent.value[str(path[-1])].key_at
        return self.at(path)

    def text(self, path: Path) -> str:
        """The source text of the scalar at `path`, without quotes: "1.10" for `1.10`. KeyError also
        for a mapping or a list."""
        node = self.node(path)
        if isinstance(node.value, (dict, tuple)):
            raise KeyError(path)
        return node.text

    def with_value(self, path: Path, value: Any, position: Position) -> Document:
        """A copy with `value` at `path`, at the given position. Missing mappings on the path are
        created; if there is another value on the path, nothing is changed."""
        return Document(self.file, _replaced(self.root, path, _node_of(value, position), position))


def plain_data(node: Node) -> Any:
    """A copy of `node` as dicts, lists and scalars."""
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
    """Adds a key. For a duplicate key the first value is kept and a problem is reported."""
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
