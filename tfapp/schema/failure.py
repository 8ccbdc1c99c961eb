"""The errors of jsonschema as plain values, so that no other module depends on its classes."""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tfapp.documents.document import Path
from tfapp.library_path import installed_first
from tfapp.schema.parts import Schema

if TYPE_CHECKING:
    from jsonschema import ValidationError


# Digests of data that is known to fit its schema, with that schema. None: nothing is remembered.
# The import of jsonschema takes as long as a third of a command; most commands check what the one
# before has checked.
KNOWN_TO_FIT: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar(
    "known to fit", default=None
)


class SchemaFailure(NamedTuple):
    """A value that does not fit its schema."""

    path: Path  # to the value
    keyword: str  # the JSON Schema keyword that refuses it; "None" for the schema `false`
    wanted: Any  # the keyword's value
    said: Schema  # the schema object that the keyword stands in
    found: Any  # the value; for `propertyNames` the key
    is_name: bool  # `found` is a key of the mapping at `path`
    branch: Any  # inside anyOf/oneOf: which of them
    depth: int  # inside anyOf/oneOf: steps from the value with the branches down to this one
    inner: tuple[SchemaFailure, ...]  # what anyOf/oneOf say, all branches


def failure(error: ValidationError) -> SchemaFailure:
    """Converts an error with all errors in its context."""
    inside = tuple(error.relative_schema_path)
    return SchemaFailure(
        path=tuple(error.absolute_path),
        keyword=str(error.validator),
        wanted=error.validator_value,
        said=error.schema if isinstance(error.schema, dict) else {},
        found=error.instance,
        is_name="propertyNames" in inside and isinstance(error.instance, str),
        branch=inside[0] if inside else None,
        depth=len(error.relative_path),
        inner=tuple(failure(inner) for inner in error.context or ()),
    )


def failures(data: Any, schema: Schema | None) -> Iterator[SchemaFailure]:
    """The violations of `schema` in `data`; without a schema, those of JSON Schema's
    meta-schema."""
    known = KNOWN_TO_FIT.get()
    digest = hashlib.sha256(repr((schema, data)).encode(errors="surrogatepass")).hexdigest()
    if known is not None and digest in known:
        return
    with installed_first():
        from jsonschema import Draft202012Validator

    fits = True
    wanted = Draft202012Validator.META_SCHEMA if schema is None else schema
    for error in Draft202012Validator(wanted).iter_errors(data):
        fits = False
        yield failure(error)
    if fits and known is not None:
        known.add(digest)
