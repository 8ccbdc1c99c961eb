"""Hints for unknown keys and for values of the wrong shape."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from tfapp.close_match import close_match
from tfapp.documents.document import Path
from tfapp.schema.describe import sections_of
from tfapp.schema.expectation import either
from tfapp.schema.parts import Parts, Schema, SchemaParts, types

_MAX_LISTED = 8
_COMPONENTS = "components"
_PREFIX, _CAPITALS = "x-tfapp-prefix", "x-tfapp-capitals"


def unknown_key_hint(key: str, value: Any, said: Schema, schema: SchemaParts) -> str:
    """The hint for `key`, which is unknown in the mapping with the schema `said`. `value` is its
    value in the document."""
    parts = schema.of((said,))
    dotted = _with_dots(key, value)
    if dotted and schema.member(parts, dotted[0]):
        reason = (
            "the dot is part of the key"
            if isinstance(value, Mapping)
            else "each is a key of its own"
        )
        return f"{reason}: write '{dotted[0]}: {dotted[1]}'"
    match = meant_key(key, parts, schema)
    if place := _place(key, schema):
        return place
    if match:
        return f"did you mean '{match}'?"
    if dotted and (place := _place(dotted[0], schema)):
        return f"{place}, as '{dotted[0]}: {dotted[1]}'"
    if _is_component(key, value, schema):
        return f"it belongs in {_COMPONENTS}"
    if unknown := said.get("x-tfapp-unknown"):
        return unknown
    known = schema.working_keys(parts)
    if 0 < len(known) <= _MAX_LISTED:
        return f"expected {either([repr(word) for word in known if word != '$schema'])}"
    return "`tfapp schema` shows the keys"


def meant_key(key: str, parts: Parts, schema: SchemaParts) -> str:
    """The key of a mapping that `key` is a misspelling of, or that it lacks a prefix of; "" for
    none."""
    annotation = (
        _CAPITALS if key.isupper() and any(_CAPITALS in part for part in parts) else _PREFIX
    )
    prefixed = next((part[annotation] for part in parts if annotation in part), "") + key
    return (
        prefixed if schema.member(parts, prefixed) else close_match(key, schema.working_keys(parts))
    )


def shape_hint(path: Path, found: Any, said: Schema, schema: SchemaParts) -> str:
    """How to write `found`, the value of the key at `path`, in the shape that the schema `said`
    expects; "" if that is unknown."""
    name, wanted = path[-1], types((said,))
    if wanted == {"string"} and _is_a_text(found):
        return f"write one text: {shlex.join(map(str, found))}"
    if wanted == {"array"} and isinstance(found, str):
        return f"write {name}: [{found}]"
    if wanted == {"array"} and isinstance(found, Mapping):
        keys = schema.working_keys(schema.of((said.get("items"),)))
        first = next(iter(found), "")
        return f"write '- name: {first}' in place of '{first}:'" if first and "name" in keys else ""
    if wanted == {"object"}:
        return _mapping_hint(str(name), found, said) or _place_of_value(path, schema)
    return ""


def _mapping_hint(name: str, found: Any, said: Schema) -> str:
    first = found[0] if isinstance(found, list) and found else None
    if isinstance(first, Mapping) and isinstance(first.get("name"), str):
        return f"write '{first['name']}:' in place of '- name: {first['name']}'"
    needed = next(iter(said.get("anyOf", ())), said).get("required", ())
    if len(needed) == 1 and isinstance(found, str):
        return f"write {name}: {{ {needed[0]}: {found} }}"
    if len(needed) == 1 and _are_scalars(found):
        return f"write {name}: {{ {needed[0]}: [{', '.join(map(str, found))}] }}"
    return ""


def _place_of_value(path: Path, schema: SchemaParts) -> str:
    """The section of the key at `path`, if it is in the wrong section, such as `yarn.memory` in
    components."""
    key, here = str(path[-1]), ".".join(map(str, path[:-1]))
    return "" if here in sections_of(key, schema) else _place(key, schema)


def _place(key: str, schema: SchemaParts) -> str:
    """The outermost sections that accept `key`, as a hint."""
    sections = sections_of(key, schema)
    least = min((_depth(section) for section in sections), default=0)
    nearest = [section for section in sections if _depth(section) == least]
    if nearest == [""]:
        return "it belongs at the top level, without indentation"
    return f"it belongs in {either(nearest)}" if nearest else ""


def _depth(section: str) -> int:
    return len(section.split(".")) if section else 0


def _is_component(key: str, value: Any, schema: SchemaParts) -> bool:
    """Whether `value` has keys that a component accepts."""
    parts = schema.at((_COMPONENTS, key))
    return isinstance(value, Mapping) and any(schema.member(parts, inner) for inner in value)


def _with_dots(key: str, value: Any) -> tuple[str, Any] | None:
    """The first scalar in `value` and its key with dots: `env: {A: x}` and `env: [A=x]` give
    `env.A` and `x`. None if there is none."""
    if isinstance(value, list) and value:
        value = _pair(value[0])
    elif isinstance(value, str):
        value = _pair(value)
    if not isinstance(value, Mapping) or not value:
        return None
    first = next(iter(value))
    inner = value[first]
    deeper = _with_dots(f"{key}.{first}", inner) if isinstance(inner, Mapping) else None
    return deeper or (f"{key}.{first}", inner)


def _pair(item: Any) -> Any:
    """An item of a list of variables, as in Docker or Kubernetes, as a mapping."""
    if isinstance(item, str) and "=" in item:
        name, _, value = item.partition("=")
        return {name: value}
    if isinstance(item, Mapping) and isinstance(item.get("name"), str) and "value" in item:
        return {item["name"]: item["value"]}
    return item


def _are_scalars(found: Any) -> bool:
    scalars = (str, int, float)
    return isinstance(found, list) and bool(found) and all(isinstance(x, scalars) for x in found)


def _is_a_text(found: Any) -> bool:
    """Whether its items beside each other are a text for YAML as well."""
    return _are_scalars(found) and isinstance(found[0], str)
