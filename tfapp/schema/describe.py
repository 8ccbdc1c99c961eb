"""The key reference: every key of the schemas with its type, default and description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfapp.schema.expectation import either, expectation, says_what
from tfapp.schema.load import CONFIG, effective_schema
from tfapp.schema.parts import Schema, SchemaParts

IGNORED, REFUSED = "ignored", "refused"


class KeyDescription(NamedTuple):
    """One key. `section`: the path of its mapping ("application.components[]"; "" for the top
    level). `status`: "" for a key that works, "ignored" or "refused". `default` and `examples` are
    JSON; `default` is "" if there is none."""

    section: str
    key: str
    type: str
    default: str
    description: str
    examples: tuple[str, ...]
    status: str


def describe(kind: str, extra: Mapping[str, Any] | None = None) -> tuple[KeyDescription, ...]:
    """All keys of a document of `kind`, in the order of the schema."""
    schema = effective_schema(kind, extra)
    rows: dict[tuple[str, str], KeyDescription] = {}
    for row in _Manual(SchemaParts(schema)).keys(schema, ""):
        rows.setdefault((row.section, row.key), row)
    return tuple(rows.values())


def sections_of(key: str, schema: SchemaParts) -> tuple[str, ...]:
    """The sections that accept `key`. Patterns are considered only for a key with a dot: any other
    key could be a name."""
    rows = _Manual(schema, key if "." in key else None).keys(schema.root, "")
    found = [row.section for row in rows if row.key == key and row.status != REFUSED]
    return tuple(dict.fromkeys(found))


def defaults(
    kind: str, definition: str = CONFIG, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The defaults of the keys of one mapping. `definition`: its name under `$defs`, such as
    "config" (appConfig's global and components), "component" or "master" (resources), or
    "application" (metainfo). KeyError for an unknown definition."""
    schema = effective_schema(kind, extra)
    parts = SchemaParts(schema)
    found: dict[str, Any] = {}
    for part in parts.of((schema["$defs"][definition],)):
        for key, value in part.get("properties", {}).items():
            for said in parts.of((value,)):
                if "default" in said:
                    found.setdefault(key, said["default"])
    return found


def is_refused(kind: str, definition: str, key: str) -> bool:
    """Whether the mapping `definition` of documents of `kind` refuses `key`."""
    schema = effective_schema(kind)
    parts = SchemaParts(schema)
    members = parts.member(parts.of((schema["$defs"][definition],)), key)
    return any("x-tfapp-refused" in member for member in members)


class _Manual:
    """Iterates over the keys of a schema. A pattern is named by `x-tfapp-key`, or by `wanted` if it
    matches the pattern."""

    def __init__(self, schema: SchemaParts, wanted: str | None = None):
        self.schema = schema
        self.wanted = wanted
        self.shown: set[int] = set()  # definitions that stand in the manual already

    def keys(self, value: Schema, section: str) -> Iterator[KeyDescription]:
        for part in self.schema.of((value,)):
            if id(part) in self.shown:
                continue
            if "properties" in part or "patternProperties" in part:
                self.shown.add(id(part))
            for key, member in self.members(part):
                if member:  # an empty schema stands for a key that is described elsewhere
                    yield from self.key(section, key, member)
            if isinstance(part.get("items"), Mapping):
                yield from self.keys(part["items"], f"{section}[]")

    def members(self, part: Schema) -> Iterator[tuple[str, Schema]]:
        yield from part.get("properties", {}).items()
        for pattern, member in part.get("patternProperties", {}).items():
            name = member.get("x-tfapp-key", pattern)
            if self.wanted is not None and re.search(pattern, self.wanted):
                name = self.wanted
            yield name, member
        others = part.get("additionalProperties")
        if isinstance(others, Mapping) and "x-tfapp-key" in others:
            yield others["x-tfapp-key"], others

    def key(self, section: str, key: str, member: Schema) -> Iterator[KeyDescription]:
        said = self.said(member)
        default = json.dumps(said["default"], ensure_ascii=False) if "default" in said else ""
        examples = tuple(
            json.dumps(value, ensure_ascii=False) for value in said.get("examples", ())
        )
        yield KeyDescription(
            section, key, self.type(member), default, _description(said), examples, _status(said)
        )
        yield from self.keys(member, f"{section}.{key}" if section else key)

    def said(self, member: Schema) -> dict[str, Any]:
        """All keywords that apply to a key; the nearest takes precedence."""
        merged: dict[str, Any] = {}
        for part in self.schema.of((member,)):
            merged = {**part, **merged}
        return merged

    def type(self, member: Schema) -> str:
        parts = self.schema.of((member,))
        return either([expectation(part) for part in parts if says_what(part)])


def _description(said: Mapping[str, Any]) -> str:
    reason = said.get("x-tfapp-ignored") or said.get("x-tfapp-refused")
    sentences = [said.get("description", "")]
    if reason:
        sentences.append(f"{_status(said).capitalize()}: {reason}.")
        hint = said.get("x-tfapp-hint", "")
        sentences.append(f"{hint[:1].upper()}{hint[1:]}." if hint else "")
    return " ".join(sentence for sentence in sentences if sentence)


def _status(said: Mapping[str, Any]) -> str:
    return IGNORED if "x-tfapp-ignored" in said else REFUSED if "x-tfapp-refused" in said else ""
