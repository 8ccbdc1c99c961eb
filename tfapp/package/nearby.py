"""Finds the file that a wrong path is most likely a misspelling of."""

from __future__ import annotations

from pathlib import Path

from tfapp.close_match import close_match


def nearby(path: Path) -> str:
    """The file or folder beside `path` that it is most likely a misspelling of, or ""."""
    try:
        names = {entry.name for entry in path.parent.iterdir()} if path.name else set()
    except OSError:
        return ""
    match = close_match(path.name, sorted(names - {path.name}))
    return str(path.with_name(match)) if match else ""


def nearby_hint(path: Path, otherwise: str) -> str:
    """A hint that offers that file or folder, or `otherwise` if there is none."""
    found = nearby(path)
    return f"did you mean {found}?" if found else otherwise
