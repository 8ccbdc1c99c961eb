"""Validates a document against its schema: the typed data, and all violations with their
positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfapp.documents.document import Document, Node, Path, plain_data
from tfapp.documents.scalars import resolve_plain
from tfapp.problems import WARNING, Problem
from tfapp.schema.expectation import says_what
from tfapp.schema.explain import Violation, explain
from tfapp.schema.extension import extension_violations
from tfapp.schema.failure import failures
from tfapp.schema.load import effective_schema
from tfapp.schema.parts import Parts, SchemaParts, json_type, types

IGNORED = "ignored-key"
_MAY_STAY = "remove it, or leave it for Slider"


def check_document(
    document: Document, kind: str, extra: Mapping[str, Any] | None = None
) -> tuple[Any, tuple[Problem, ...]]:
    """Returns the data of `document` with the types of its schema, and all Problems, sorted.

    `kind`: one of `tfapp.schema.KINDS`. `extra`: the package's appConfig.schema.json, as returned
    by `check_extension`. An unquoted scalar becomes its source text where text is expected
    (`1.10`). Text becomes a number or a boolean where one is expected ("2", "true"). A missing
    value becomes an empty mapping where one is expected. Defaults are not filled in.
    """
    schema = effective_schema(kind, extra)
    parts = SchemaParts(schema)
    data = normalised(document.root, parts)
    violations = tuple(_violations(data, schema))
    wrong = {violation.path for violation in violations}
    problems = {_problem(document, violation) for violation in violations}
    problems.update(_ignored(document, document.root, (), parts.whole(), parts, wrong))
    return data, tuple(sorted(problems))


def check_extension(document: Document) -> tuple[dict[str, Any] | None, tuple[Problem, ...]]:
    """Returns the schema in a package's appConfig.schema.json, which declares `site.*` keys, and
    its Problems. The schema is None if it cannot be used."""
    problems = {_problem(document, violation) for violation in extension_violations(document.data)}
    return (None if problems else document.data), tuple(sorted(problems))


def _violations(data: Any, schema: Mapping[str, Any]) -> Iterator[Violation]:
    parts = SchemaParts(schema)
    for failure in failures(data, schema):
        yield from explain(failure, parts)


def _problem(document: Document, violation: Violation) -> Problem:
    place = (document.key_at if violation.at_key else document.at)(violation.path)
    return Problem(place, violation.code, violation.message, hint=violation.hint)


def _ignored(
    document: Document, node: Node, path: Path, parts: Parts, schema: SchemaParts, wrong: set[Path]
) -> Iterator[Problem]:
    """Yields a warning for each key that has no effect (`x-tfapp-ignored`)."""
    if isinstance(node.value, dict):
        children: Any = [(key, entry.node) for key, entry in node.value.items()]
    elif isinstance(node.value, tuple):
        children = list(enumerate(node.value))
    else:
        return
    for step, child in children:
        inner, inner_parts = (*path, step), schema.child(parts, step)
        said = next((part for part in inner_parts if "x-tfapp-ignored" in part), None)
        if said is None:
            yield from _ignored(document, child, inner, inner_parts, schema, wrong)
        elif inner not in wrong:
            message = f"'{step}' has no effect: {said['x-tfapp-ignored']}"
            # Where the values are limited, the hint is about the values that are not allowed.
            hint = _MAY_STAY if says_what(said) else said.get("x-tfapp-hint", _MAY_STAY)
            yield Problem(document.key_at(inner), IGNORED, message, WARNING, hint)


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
