"""Converts errors of jsonschema into problems for a person: position, message and hint.

`KEYWORDS` has a function for each JSON Schema keyword with a message of its own. A value gets one
message, even if it violates several keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tfapp.close_match import did_you_mean
from tfapp.documents.document import Path
from tfapp.schema.expectation import either, expectation, says_what, shown
from tfapp.schema.failure import SchemaFailure
from tfapp.schema.hints import meant_key, shape_hint, unknown_key_hint
from tfapp.schema.parts import Parts, SchemaParts, types

UNKNOWN, MISSING, REFUSED = "unknown-key", "missing-key", "refused-key"
WRONG_TYPE, WRONG_VALUE = "wrong-type", "wrong-value"
_LEADING_ZEROS = re.compile(r"[-+]?0[0-9]+\Z")


class Violation(NamedTuple):
    """A problem. `path` leads to a value; with `at_key`, it is about the key of this value."""

    path: Path
    at_key: bool
    code: str
    message: str
    hint: str = ""


def explain(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    """The problems that one failure stands for."""
    if failure.is_name:
        yield _wrong_name(failure)
    else:
        yield from KEYWORDS.get(failure.keyword, _wrong_value)(failure, schema)


def name_of(path: Path) -> str:
    """The name of the value at `path` for messages: its key, or its position in a list."""
    if not path:
        return "the document"
    step = path[-1]
    return step if isinstance(step, str) else f"item {step + 1} of {name_of(path[:-1])}"


def _wrong_value(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    code = WRONG_TYPE if failure.keyword == "type" else WRONG_VALUE
    violation = _unexpected(failure, code, expectation(failure.said))
    secret = "x-tfapp-secret" in failure.said
    if code == WRONG_TYPE and failure.path and not violation.hint and not secret:
        hint = shape_hint(failure.path, failure.found, failure.said, schema)
        violation = violation._replace(hint=hint)
    yield violation


def _unexpected(failure: SchemaFailure, code: str, expected: str) -> Violation:
    # A value that is a secret by mistake must not end up in a log.
    found = "something else" if "x-tfapp-secret" in failure.said else shown(failure.found)
    message = f"{name_of(failure.path)}: expected {expected}, found {found}"
    code, message = _own_words(failure, code, message)
    return Violation(failure.path, False, code, message, _value_hint(failure))


def _own_words(failure: SchemaFailure, code: str, message: str) -> tuple[str, str]:
    """Code and message with those of the schema, if it has any."""
    value, key = failure.found, name_of(failure.path).partition(".")[2]
    said = failure.said.get("x-tfapp-message", "")
    if isinstance(value, str) and "type" not in failure.keyword:
        words = {"{value}": value, "{length}": str(len(value)), "{key}": key}
        said = re.sub(r"\{\w+\}", lambda match: words[match[0]], said)
        return failure.said.get("x-tfapp-code", code), said or message
    return code, message


def _value_hint(failure: SchemaFailure) -> str:
    if "x-tfapp-hint" in failure.said:
        return failure.said["x-tfapp-hint"]
    if failure.found is None and "string" in types((failure.said,)):
        return "write '' for an empty text, or remove the key"
    if isinstance(failure.found, str):
        if _LEADING_ZEROS.match(failure.found) and failure.keyword == "type":
            return f"write it without zeros before it: {int(failure.found)}"
        words = [word for word in failure.said.get("enum", ()) if isinstance(word, str)]
        return did_you_mean(failure.found, words, form="did you mean '{}'?")
    return ""


def _wrong_name(failure: SchemaFailure) -> Violation:
    expected = expectation(failure.said)
    message = f"{name_of(failure.path)}: expected as a key {expected}, found {failure.found!r}"
    hint = failure.said.get("x-tfapp-hint", "")
    return Violation((*failure.path, failure.found), True, WRONG_VALUE, message, hint)


def _unknown_keys(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    parts = schema.of((failure.said,))
    for key, value in failure.found.items():
        if not schema.member(parts, key):
            hint = unknown_key_hint(key, value, failure.said, schema)
            yield Violation((*failure.path, key), True, UNKNOWN, f"unknown key '{key}'", hint)


def _missing_keys(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    """A required key that is present under a misspelt name is reported once, as an unknown key."""
    parts = schema.of((failure.said,))
    unknown = [key for key in failure.found if not schema.member(parts, key)]
    misspelt = {meant_key(key, parts, schema) for key in unknown}
    for key in failure.wanted:
        if key not in failure.found and key not in misspelt:
            message = f"the key '{key}' is missing in {name_of(failure.path)}"
            hint = f"add '{key}'{_expected_member(schema, parts, key)}"
            yield Violation(failure.path, True, MISSING, message, hint)


def _expected_member(schema: SchemaParts, parts: Parts, key: str) -> str:
    members = schema.member(parts, key)
    return next((f": {expectation(part)}" for part in members if says_what(part)), "")


def _needed_keys(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    for key, needed in failure.wanted.items():
        for other in needed:
            if key in failure.found and other not in failure.found:
                message = f"'{key}' needs the key '{other}' beside it"
                yield Violation((*failure.path, key), True, MISSING, message, f"add '{other}'")


def _refused(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    if "x-tfapp-refused" not in failure.said:
        yield from _wrong_value(failure, schema)
        return
    why, hint = failure.said["x-tfapp-refused"], failure.said.get("x-tfapp-hint", "")
    code, message = _own_words(failure, REFUSED, f"'{name_of(failure.path)}' is refused: {why}")
    yield Violation(failure.path, True, code, message, hint)


def _repeated(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    for index, item in enumerate(failure.found):
        if item in failure.found[:index]:
            message = f"{name_of(failure.path)}: {shown(item)} stands in the list a second time"
            place = (*failure.path, index)
            yield Violation(place, False, WRONG_VALUE, message, "keep one of them")


def _branches(failure: SchemaFailure, schema: SchemaParts) -> Iterator[Violation]:
    """The problems of the branch that was most likely intended: the one with the deepest
    failure."""
    branches: dict[Any, list[SchemaFailure]] = {}
    for inner in failure.inner:
        branches.setdefault(inner.branch, []).append(inner)
    whole = [_about_all(branch) for branch in branches.values()]
    if branches and None in whole:
        for inner in max(branches.values(), key=_depth):
            yield from explain(inner, schema)
        return
    code = (
        WRONG_TYPE if whole and all(one and one.keyword == "type" for one in whole) else WRONG_VALUE
    )
    expected = either([expectation(one.said) for one in whole if one])
    if "x-tfapp-expected" in failure.said or not expected:
        expected = expectation(failure.said)
    yield _unexpected(failure, code, expected)


def _about_all(branch: list[SchemaFailure]) -> SchemaFailure | None:
    """The failure of a branch that concerns the value as a whole; None if all concern parts of
    it."""
    keyed = ("required", "additionalProperties", "unevaluatedProperties", "dependentRequired")
    return next((one for one in branch if not one.depth and one.keyword not in keyed), None)


def _depth(branch: list[SchemaFailure]) -> tuple[bool, int, int]:
    return _about_all(branch) is None, max(one.depth for one in branch), -len(branch)


Explanation = Callable[[SchemaFailure, SchemaParts], Iterator[Violation]]

KEYWORDS: Mapping[str, Explanation] = {
    "additionalProperties": _unknown_keys,
    "anyOf": _branches,
    "dependentRequired": _needed_keys,
    "not": _refused,
    "oneOf": _branches,
    "required": _missing_keys,
    "unevaluatedProperties": _unknown_keys,
    "uniqueItems": _repeated,
}
