"""Validates a document against its schema: the typed data, and all violations with their
positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfapp.documents.document import Document, Node, Path
from tfapp.problems import WARNING, Position, Problem
from tfapp.schema.expectation import says_what
from tfapp.schema.explain import Violation, explain
from tfapp.schema.extension import extension_violations
from tfapp.schema.failure import failures
from tfapp.schema.load import effective_schema
from tfapp.schema.normalise import normalised
from tfapp.schema.parts import Parts, SchemaParts

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
    place = _key_or_value(document, violation)
    return Problem(place, violation.code, violation.message, hint=violation.hint)


def _key_or_value(document: Document, violation: Violation) -> Position:
    return (document.key_at if violation.at_key else document.at)(violation.path)


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
