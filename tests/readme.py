"""The README's command blocks, and tables of the documentation."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def blocks() -> list[str]:
    """The shell blocks, in order."""
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"))


def table(page: str, heading: str = "") -> list[list[str]]:
    """The rows, as cells, of the first table under `heading`, or of a page of docs/."""
    text = (README.parent / "docs" / page).read_text(encoding="utf-8")
    section = (text.split(f"\n## {heading}\n")[1] if heading else text).split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]
