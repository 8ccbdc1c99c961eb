"""Parses YAML and JSON into data with the position of every key and value, and writes YAML.

This is the only room that parses YAML. A malformed file results in `Problem`s, never in an
exception:

    document, problems = read_document("app/metainfo.yaml", data, "yaml")
"""

from __future__ import annotations

import sys
from typing import Any

from tfapp.documents.decode import Unreadable, decode
from tfapp.documents.document import Document
from tfapp.problems import Problem

__all__ = ["Document", "read_document", "render_yaml"]


def read_document(
    label: str, data: bytes, syntax: str
) -> tuple[Document | None, tuple[Problem, ...]]:
    """Parses one file. `label`: its name in messages. `syntax`: "yaml" or "json".

    Returns the document, None if it cannot be parsed, and its problems. A document with problems
    (such as a duplicate key) can still be validated. Never raises, whatever `data` contains.
    """
    problems: list[Problem] = []
    try:
        text = decode(label, data)
        if syntax == "json":
            from tfapp.documents.json_reader import parse_json

            root = parse_json(label, text, problems)
        else:
            from tfapp.documents.yaml_reader import parse_yaml

            root = parse_yaml(label, text, problems)
    except Unreadable as error:
        return None, (*sorted(problems), error.problem)
    return Document(label, root), tuple(sorted(problems))


def render_yaml(data: Any) -> str:
    """`data` (dicts, lists and scalars) as YAML, in the style of tfapp's packages. It is equal to
    `data` when parsed; the order of keys is kept."""
    import yaml

    return yaml.safe_dump(
        data, sort_keys=False, allow_unicode=True, default_flow_style=False, width=sys.maxsize
    )
