"""Converts values to the types of their schema: `1.10` to text, "2" to a number, an empty value to
{}."""

from __future__ import annotations

from typing import Any

from tfapp.documents.document import Node, plain_data
from tfapp.documents.scalars import resolve_plain
from tfapp.schema.parts import Parts, SchemaParts, json_type, types


def normalised(node: Node, schema: SchemaParts) -> Any:
    """The data of `node`. A value that cannot be converted is kept, and the validation reports
    it."""
    return _value(node, schema.whole(), schema)


def _value(node: Node, parts: Parts, schema: SchemaParts) -> Any:
    if not parts:
        return plain_data(node)
    if isinstance(node.value, dict):
        return {
            key: _value(entry.node, schema.member(parts, key), schema)
            for key, entry in node.value.items()
        }
    if isinstance(node.value, tuple):
        items = enumerate(node.value)
        return [_value(item, schema.item(parts, index), schema) for index, item in items]
    return _scalar(node, types(parts))


def _scalar(node: Node, wanted: frozenset[str]) -> Any:
    value = node.value
    if value is None:
        return _empty(wanted)
    if isinstance(value, str):
        return _from_text(value, wanted)
    if isinstance(value, float) and "number" not in wanted and value.is_integer():
        value = int(value) if "integer" in wanted else value
    if "string" in wanted and not _fits(value, wanted):
        return node.text
    return value


def _empty(wanted: frozenset[str]) -> Any:
    """An empty mapping or list for a missing value, if the schema allows only that."""
    if "null" not in wanted:
        if "object" in wanted:
            return {}
        if "array" in wanted:
            return []
    return None


def _from_text(text: str, wanted: frozenset[str]) -> Any:
    meant = resolve_plain(text.strip())
    if isinstance(meant, float) and "number" not in wanted and meant.is_integer():
        meant = int(meant)
    if isinstance(meant, (bool, int, float)) and _fits(meant, wanted):
        return meant
    return text


def _fits(value: Any, wanted: frozenset[str]) -> bool:
    kind = json_type(value)
    return kind in wanted or (kind == "integer" and "number" in wanted)
