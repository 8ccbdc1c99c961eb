"""Validates a package's own appConfig.schema.json, which declares its `site.*` keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfapp.documents.document import Path
from tfapp.schema.expectation import either, shown
from tfapp.schema.explain import Violation, explain
from tfapp.schema.failure import failures
from tfapp.schema.load import CONFIG, effective_schema
from tfapp.schema.parts import SchemaParts, types

CODE = "package-schema"
_SCALARS = frozenset(("string", "integer", "number", "boolean"))
_KEYWORDS = (
    "$schema", "$id", "$comment", "$defs", "title", "description", "type", "properties",
    "patternProperties",
)  # fmt: skip


def extension_violations(data: Any) -> tuple[Violation, ...]:
    if not isinstance(data, Mapping):
        message = "expected a JSON Schema, which is a JSON object"
        hint = 'such as {"properties": {"site.global.epochs": {"type": "integer"}}}'
        return (Violation((), True, CODE, message, hint),)
    for check in (
        _not_a_schema,
        _references,
        _unusable_regexes,
        _meaningless,
        _not_scalar,
        _wrong_defaults,
    ):
        found = tuple(check(data))
        if found:  # later checks rely on what earlier ones refuse
            return found
    return ()


def _not_a_schema(data: Mapping[str, Any]) -> Iterator[Violation]:
    for failure in failures(data, None):
        yield from explain(failure, SchemaParts({}))


def _references(data: Mapping[str, Any]) -> Iterator[Violation]:
    schema = SchemaParts(data)
    for path, value in _walk(data, ()):
        if path[-1:] not in (("$ref",), ("$dynamicRef",)) or not isinstance(value, str):
            continue
        if path[-1] == "$dynamicRef" or not value.startswith("#/"):
            message = f"the reference {shown(value)} leads out of this file"
            yield Violation(path, False, CODE, message, "copy what it points to below '$defs'")
        elif not _resolves(schema, value):
            message = f"the reference {shown(value)} points to nothing in this file, or to itself"
            hint = "declare what it names below '$defs'"
            yield Violation(path, False, CODE, message, hint)


def _resolves(schema: SchemaParts, reference: str) -> bool:
    """Whether `reference` leads to a schema, without a cycle."""
    waiting, seen = [reference], set()
    while waiting:
        current = waiting.pop()
        seen.add(current)
        try:
            target = schema.resolve(current)
        except KeyError:
            return False
        inside = {value for path, value in _walk(target, ()) if path[-1:] == ("$ref",)}
        if reference in inside:
            return False
        waiting += [inner for inner in inside if isinstance(inner, str) and inner not in seen]
    return True


def _unusable_regexes(data: Mapping[str, Any]) -> Iterator[Violation]:
    for path, value in _walk(data, ()):
        named = path[-2:-1] == ("patternProperties",)
        regex = path[-1] if named else value if path[-1:] == ("pattern",) else None
        if not isinstance(regex, str):
            continue
        try:
            re.compile(regex)
        except re.error as error:
            message = f"{shown(regex)} is not a regular expression: {error}"
            hint = "before a character that is meant as it stands, write two backslashes in JSON"
            yield Violation(path, named, CODE, message, hint)


def _meaningless(data: Mapping[str, Any]) -> Iterator[Violation]:
    for keyword in data:
        if keyword not in _KEYWORDS:
            hint = f"a package's schema has {either([repr(word) for word in _KEYWORDS])}"
            message = f"'{keyword}' has no meaning for the whole configuration"
            yield Violation((keyword,), True, CODE, message, hint)
    known = effective_schema("appConfig")["$defs"][CONFIG]["properties"]
    for key in data.get("properties", {}):
        if key in known:
            message = f"the key '{key}' is declared by tfapp"
            hint = "give it another value in appConfig-default.yaml, or another name"
            yield Violation(("properties", key), True, CODE, message, hint)
        elif not key.startswith("site."):
            message = f"expected the name of a key that begins with 'site.', found '{key}'"
            yield Violation(
                ("properties", key), True, CODE, message, f"did you mean 'site.global.{key}'?"
            )
    for pattern in data.get("patternProperties", {}):
        if not pattern.startswith("^site\\."):
            message = f"expected a pattern that begins with '^site\\.', found '{pattern}'"
            hint = "a package declares site.* keys; in JSON a backslash is written twice"
            yield Violation(("patternProperties", pattern), True, CODE, message, hint)


def _not_scalar(data: Mapping[str, Any]) -> Iterator[Violation]:
    schema = SchemaParts(data)
    for group in ("properties", "patternProperties"):
        for key, value in data.get(group, {}).items():
            wanted = types(schema.of((value,)))
            if not wanted or not wanted <= _SCALARS:
                message = f"'{key}' needs a 'type': {either(sorted(_SCALARS))}"
                yield Violation(
                    (group, key), True, CODE, message, "a value of appConfig is one text"
                )


def _wrong_defaults(data: Mapping[str, Any]) -> Iterator[Violation]:
    declared = data.get("properties", {})
    values = {key: value["default"] for key, value in declared.items() if "default" in value}
    for failure in failures(values, data):
        for violation in explain(failure, SchemaParts(data)):
            path = ("properties", *violation.path, "default")
            message = f"the default does not fit its own schema: {violation.message}"
            yield Violation(path, False, CODE, message, violation.hint)


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, (*path, index))
