"""Rules that YAML and JSON mappings share."""

from __future__ import annotations

from tfapp.documents.document import Entry, Node
from tfapp.problems import Position, Problem


def add_entry(
    entries: dict[str, Entry], key: str, key_at: Position, node: Node, problems: list[Problem]
) -> None:
    """Adds one key. The first of two equal keys stands; the second is a problem."""
    if key not in entries:
        entries[key] = Entry(key_at, node)
        return
    problems.append(
        Problem(
            key_at,
            "duplicate-key",
            f"the key '{key}' stands here a second time",
            hint=f"the first is at line {entries[key].key_at.line}; keep one of the two",
        )
    )
