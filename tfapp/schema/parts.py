"""Finds the subschemas that apply to a value. Follows references, `allOf` and branches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Parts = tuple[Schema, ...]

_TOGETHER = ("allOf",)
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONAL = ("then", "else")


class SchemaParts:
    """Finds the subschemas that apply to values of documents with the schema `root`."""

    def __init__(self, root: Schema):
        self.root = root

    def whole(self) -> Parts:
        return self.of((self.root,))

    def of(self, schemas: Iterable[Any]) -> Parts:
        """The given schemas and all subschemas that apply to the same value."""
        found: dict[int, Schema] = {}
        for schema in schemas:
            self._collect(schema, found)
        return tuple(found.values())

    def member(self, parts: Parts, key: str) -> Parts:
        """The subschemas for the value of `key` in a mapping; () if the key is not declared."""
        return self.of(schema for part in parts for schema in _members(part, key))

    def item(self, parts: Parts, index: int) -> Parts:
        """The subschemas for item `index` of a list."""
        return self.of(schema for part in parts for schema in _items(part, index))

    def child(self, parts: Parts, step: str | int) -> Parts:
        """The subschemas for one more step of a path."""
        return self.member(parts, step) if isinstance(step, str) else self.item(parts, step)

    def at(self, path: Iterable[str | int]) -> Parts:
        parts = self.whole()
        for step in path:
            parts = self.child(parts, step)
        return parts

    def working_keys(self, parts: Parts) -> tuple[str, ...]:
        """The declared keys that are neither ignored nor refused, in the order of the schema."""
        keys: dict[str, None] = {}
        for part in parts:
            for key, schema in part.get("properties", {}).items():
                said = self.of((schema,))
                if not any("x-tfapp-refused" in one or "x-tfapp-ignored" in one for one in said):
                    keys[key] = None
        return tuple(keys)

    def resolve(self, reference: str) -> Any:
        """The target of a local reference ("#/$defs/name"). KeyError if it does not exist."""
        value: Any = self.root
        for step in reference.lstrip("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                value = value[int(step)] if isinstance(value, list) else value[step]
            except (LookupError, TypeError, ValueError) as error:
                raise KeyError(reference) from error
        return value

    def _collect(self, schema: Any, found: dict[int, Schema]) -> None:
        if not isinstance(schema, Mapping) or id(schema) in found:
            return
        found[id(schema)] = schema
        if "$ref" in schema:
            self._collect(self.resolve(schema["$ref"]), found)
        for keyword in (*_TOGETHER, *_BRANCHES):
            for branch in schema.get(keyword, ()):
                self._collect(branch, found)
        for keyword in _CONDITIONAL:
            self._collect(schema.get(keyword), found)
        for branch in schema.get("dependentSchemas", {}).values():
            self._collect(branch, found)


def types(parts: Parts) -> frozenset[str]:
    """The JSON types that `parts` accept; empty if they are not restricted."""
    found: set[str] = set()
    for part in parts:
        named = part.get("type", ())
        found.update((named,) if isinstance(named, str) else named)
        values = part["enum"] if "enum" in part else [part["const"]] if "const" in part else ()
        if "type" not in part:
            found.update(json_type(value) for value in values)
    return frozenset(found)


def json_type(value: Any) -> str:
    """The JSON type of a Python value; "integer" for an int."""
    names: tuple[tuple[Any, str], ...] = (
        (type(None), "null"), (bool, "boolean"), (int, "integer"), (float, "number"),
        (str, "string"), (Mapping, "object"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "array")


def _members(part: Schema, key: str) -> Iterator[Any]:
    named = key in part.get("properties", {})
    if named:
        yield part["properties"][key]
    for pattern, schema in part.get("patternProperties", {}).items():
        if re.search(pattern, key):
            named = True
            yield schema
    if not named and "additionalProperties" in part:
        yield part["additionalProperties"]


def _items(part: Schema, index: int) -> Iterator[Any]:
    first = part.get("prefixItems", ())
    if index < len(first):
        yield first[index]
    elif "items" in part:
        yield part["items"]
