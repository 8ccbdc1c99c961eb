"""Loads the schema of each kind of document, with a package's extension."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from tfapp import shipped

KINDS = ("metainfo", "appConfig", "resources")
CONFIG = "config"  # the definition that holds the keys of `global` and of components
_PACKAGE = "package"  # the definition under which a package's own schema is put
_PATTERNS = "patternProperties"


@functools.cache
def schema_text(kind: str) -> str:
    """The text of a schema file. `kind` is one of KINDS; ValueError for another word."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of document: expected one of {', '.join(KINDS)}")
    return (shipped.schemas_dir() / f"{kind}.schema.json").read_text("utf-8")


@functools.cache
def _schema(kind: str) -> dict[str, Any]:
    return json.loads(schema_text(kind))


def effective_schema(kind: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of documents of `kind`. `extra`, a package's appConfig.schema.json that has passed
    `check_extension`, adds its keys to appConfig. The result must not be modified."""
    schema = _schema(kind)
    if not extra or kind != "appConfig":
        return schema
    config = dict(schema["$defs"][CONFIG])
    package = _moved(extra)
    config["properties"] = {**config["properties"], **package.get("properties", {})}
    config[_PATTERNS] = {**config[_PATTERNS], **package.get(_PATTERNS, {})}
    return {**schema, "$defs": {**schema["$defs"], CONFIG: config, _PACKAGE: package}}


def _moved(value: Any) -> Any:
    """`value` with local references adapted to the definition that contains a package's schema."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = f"#/$defs/{_PACKAGE}{reference[1:]}"
    return moved
