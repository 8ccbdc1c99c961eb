"""YAML and JSON text as data that remembers where each key and value stood.

The only room that parses YAML. A file that is wrong gives `Problem`s, never an exception:

    document, problems = read_document("app/metainfo.yaml", data, "yaml")
"""

from __future__ import annotations

from tfapp.documents.decode import Unreadable, decode
from tfapp.documents.document import Document
from tfapp.problems import Problem

__all__ = ["Document", "read_document"]


def read_document(
    label: str, data: bytes, syntax: str
) -> tuple[Document | None, tuple[Problem, ...]]:
    """Reads one file. `label` is how messages name it; `syntax` is "yaml" or "json".

    The document is None when the file cannot be parsed. Problems beside a document (a duplicate
    key, say) do not keep the rest from being checked. Never raises for anything in `data`.
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
