"""Finds the documents among the files of a package. A missing document, and two of one kind, are a
Problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tfapp.close_match import close_match
from tfapp.package.model import Source
from tfapp.problems import Position, Problem

MISSING, AMBIGUOUS = "missing-document", "ambiguous-document"
SCHEMA_FILE = "appConfig.schema.json"  # a package's declaration of its own site.* keys

# The first name is the one that messages suggest; the last ones are Slider's.
NAMES = {
    "metainfo": ("metainfo.yaml", "metainfo.yml", "metainfo.json"),
    "appConfig": (
        "appConfig-default.yaml",
        "appConfig-default.yml",
        "appConfig-default.json",
        "appConfig.default.json",
    ),
    "resources": (
        "resources-default.yaml",
        "resources-default.yml",
        "resources-default.json",
        "resources.default.json",
    ),
}
ALL_NAMES = frozenset(name for names in NAMES.values() for name in names)
_OPTIONS = {"appConfig": "--template", "resources": "--resources"}
# Without one, every value is the schema's default.
_MAY_LACK = ("appConfig",)


class FoundPackage(NamedTuple):
    """The file of a document. "" when there is none that can be used; `problems` say why."""

    path: str
    problems: tuple[Problem, ...] = ()


def find_document(source: Source, kind: str) -> FoundPackage:
    """The file of a package that holds its document of `kind`."""
    present = [name for name in NAMES[kind] if name in source.files()]
    if len(present) == 1:
        return FoundPackage(present[0])
    if present:
        message = f"{present[0]} and {present[1]} are both the package's {kind}"
        problem = Problem(place(source, present[1]), AMBIGUOUS, message, hint="remove one of them")
        return FoundPackage("", (problem,))
    if kind in _MAY_LACK and not any(_misnamed(source, kind)):
        return FoundPackage("")
    return FoundPackage("", (_missing(source, kind),))


def place(source: Source, path: str) -> Position:
    """The name of a file of `source` in messages."""
    return Position(f"{source.label.rstrip('/')}/{path}")


def syntax_of(path: str) -> str:
    """ "yaml" or "json" by the end of a file's name, "" when it is neither."""
    ending = path.lower().rpartition(".")[2]
    return {"yaml": "yaml", "yml": "yaml", "json": "json"}.get(ending, "")


def _missing(source: Source, kind: str) -> Problem:
    name = NAMES[kind][0]
    message = f"the package has no {name}"
    hint = next(_misnamed(source, kind), "")
    if not hint and kind in _OPTIONS:
        hint = f"add it, or name another file with {_OPTIONS[kind]}"
    hint = hint or "add it: it says what the application consists of"
    return Problem(Position(source.label), MISSING, message, hint=hint)


def _misnamed(source: Source, kind: str) -> Iterator[str]:
    """Hints at files that may be the document of `kind` under a wrong name."""
    top = [path for path in source.files() if "/" not in path]
    if f"{kind}.xml" in top:
        yield f"{kind}.xml is not read; write it as {NAMES[kind][0]}"
    candidates = [path for path in top if path not in ALL_NAMES and path != SCHEMA_FILE]
    for name in NAMES[kind]:
        if found := close_match(name, candidates):
            yield f"rename {found} to {name}"
    for path in source.files():
        folder, _, name = path.rpartition("/")
        if folder and "/" not in folder and name in NAMES[kind]:
            yield f"{path} is one; the package is the folder {folder} itself"


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
