"""Packages for tests: a sound base with a case's files over it, and findings as text."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tfapp.problems import Problem

HERE = Path(__file__).parent
RULES = HERE / "rules"
BASE = RULES / "base"


def make_package(
    root: Path, over: Path | None = None, files: Mapping[str, str] | None = None
) -> Path:
    """A package in `root`/app: the base, over it the folder `over`, over it `files` (path ->
    text)."""
    folder = root / "app"
    shutil.copytree(BASE, folder)
    if over is not None:
        ignored = shutil.ignore_patterns("expected.txt", "__pycache__")
        shutil.copytree(over, folder, dirs_exist_ok=True, ignore=ignored)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    return folder


def report(problems: tuple[Problem, ...], root: Path) -> str:
    """Each finding, and its hint in a line of its own; places are relative to `root`."""
    lines = []
    for problem in problems:
        lines.append(str(problem))
        if problem.hint:
            lines.append(f"  hint: {problem.hint}")
    return "".join(f"{line}\n" for line in lines).replace(f"{root}/", "")
