"""Rows of text in columns."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`rows` below `header`, each column as wide as its widest cell, two spaces between."""
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in table)
    return "\n".join(line.rstrip() for line in lines)


def to_json(value: Any) -> str:
    """`value` as JSON for a program or a person to read."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def when(seconds: float) -> str:
    """Seconds since 1970 as a local date and time; "-" for 0, which is never."""
    if not seconds:
        return "-"
    return datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
