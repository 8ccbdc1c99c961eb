"""The README's command blocks."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def blocks() -> list[str]:
    """The shell blocks, in order."""
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"))


def table(heading: str) -> list[list[str]]:
    """The rows of the table under `heading`, as cells."""
    section = README.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]
