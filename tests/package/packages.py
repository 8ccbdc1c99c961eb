"""Packages for tests: a sound base with files over it, findings as text, the table of mistakes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from tfapp.frozen import frozen
from tfapp.package.load import load_package
from tfapp.package.model import AppPackage
from tfapp.problems import Problem

HERE = Path(__file__).parent
MISTAKES = HERE / "mistakes"
BASE = MISTAKES / "base"
_SECTION = re.compile(rb"(?m)^=== (.+)\n")


def make_package(
    root: Path, over: Path | None = None, files: Mapping[str, str | bytes] | None = None
) -> Path:
    """A package in `root`/app: the base, over it the folder `over`, over it `files` (path ->
    content)."""
    folder = root / "app"
    shutil.copytree(BASE, folder)
    if over is not None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(over, folder, dirs_exist_ok=True, ignore=ignored)
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    return folder


@frozen
class Mistake:
    """One mistake of the table, a file MISTAKES/FOLDER/NAME.txt:

        === appConfig-default.yaml
        what stands in this file in place of that of the base package
        === without
        another.yaml
        === zip
        digits
        === command
        tfapp create mine --appdef app
        === expected
        all that is said

    There may be several files, or none; `without` names some of the base package's that are not
    there. With `zip`, the package is app.zip, and in it this folder. With a command, called beside
    the package, which is the folder app, `expected` is all that it writes, but for its usage;
    otherwise each finding of the package with its hint.
    """

    files: Mapping[str, bytes]
    without: tuple[str, ...]
    zipped: str
    command: tuple[str, ...]
    expected: str


def read_mistake(path: Path) -> Mistake:
    before, *parts = _SECTION.split(path.read_bytes())
    assert before == b"", f"{path} does not begin with a section"
    sections = dict(zip((name.decode() for name in parts[::2]), parts[1::2]))
    expected = sections.pop("expected").decode()
    without = tuple(sections.pop("without", b"").decode().split())
    zipped = sections.pop("zip", b"").decode().strip()
    words = shlex.split(sections.pop("command", b"").decode())
    assert not words or words[0] == "tfapp", words
    return Mistake(sections, without, zipped, tuple(words[1:]), expected)


def make_zip(package: Path, inside: str) -> Path:
    """`package` as a .zip beside it, in the folder `inside` of the .zip."""
    package.rename(package.with_name(inside))
    shutil.make_archive(os.fspath(package), "zip", package.parent, inside)
    return package.with_suffix(".zip")


def report(problems: tuple[Problem, ...], root: Path) -> str:
    """Each finding, and its hint in a line of its own; places are relative to `root`."""
    lines = []
    for problem in problems:
        lines.append(str(problem))
        if problem.hint:
            lines.append(f"  hint: {problem.hint}")
    return "".join(f"{line}\n" for line in lines).replace(f"{root}/", "")


def sound(folder: Path) -> AppPackage:
    """The package in `folder` or a .zip, which has no errors."""
    loaded = load_package(folder)
    assert loaded.package is not None, loaded.problems
    return loaded.package
