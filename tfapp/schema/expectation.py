"""Describes an expected value and a found value, as parts of a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tfapp.schema.parts import Schema, json_type

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys to values",
    "null": "nothing",
}
_MAX_SHOWN = 60


def expectation(schema: Schema) -> str:
    """The expected value, such as "a whole number of at least 1" or "'local' or 'docker'".

    The annotation `x-tfapp-expected` takes precedence.
    """
    if "x-tfapp-expected" in schema:
        return schema["x-tfapp-expected"]
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        return either([shown(value) for value in schema["enum"]])
    named = schema.get("type", ())
    kinds = (named,) if isinstance(named, str) else tuple(named)
    return either([_kind(kind, schema) for kind in kinds]) or "another value"


def says_what(schema: Schema) -> bool:
    """Whether `expectation` can describe a value of `schema`."""
    return any(word in schema for word in ("x-tfapp-expected", "const", "enum", "type"))


def either(words: list[str]) -> str:
    """Joins words: "a", "a or b", "a, b or c"."""
    words = list(dict.fromkeys(words))
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def shown(value: Any) -> str:
    """A value for a message: `'two'`, `2`, `true`, `a list`."""
    if value is None:
        return "nothing"
    if value == "":
        return "an empty text"
    if isinstance(value, str):
        return f"'{value[:_MAX_SHOWN]}...'" if len(value) > _MAX_SHOWN else f"'{value}'"
    if isinstance(value, (Mapping, list, tuple)):
        name = _TYPES[json_type(value)]
        return name if value else name.replace("a ", "an empty ", 1)
    return json.dumps(value)


def _kind(kind: str, schema: Schema) -> str:
    name = _TYPES.get(kind, kind)
    if kind in ("integer", "number"):
        return name + _bounds(schema)
    if kind == "string":
        return name + _text(schema)
    if kind == "array" and schema.get("minItems"):
        return f"{name} of {schema['minItems']} or more"
    return name


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        bounds = f" from {low} to {high}"
    elif low is not None:
        bounds = f" of at least {low}"
    elif high is not None:
        bounds = f" of at most {high}"
    else:
        bounds = ""
    if "exclusiveMinimum" in schema:
        bounds += f" above {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema:
        bounds += f" below {schema['exclusiveMaximum']}"
    if "multipleOf" in schema:
        bounds += f" that is a multiple of {schema['multipleOf']}"
    return bounds


def _text(schema: Schema) -> str:
    if "pattern" in schema:
        return f" that matches {schema['pattern']}"
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if high is not None:
        return f" of {low} to {high} characters"
    return " that is not empty" if low == 1 else f" of at least {low} characters" if low else ""
