"""The imports among tfapp's modules, read from the source."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tfapp

ROOT = Path(tfapp.__file__).resolve().parent


class Import(NamedTuple):
    """`importer` imports `imported` (a dotted module name)."""

    importer: str
    imported: str


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, of every module of tfapp."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("tfapp", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """The first word below tfapp: "cli" of tfapp.cli.main, "errors" of tfapp.errors, "" of
    tfapp itself."""
    return (module.split(".") + [""])[1]


@functools.cache
def imports() -> tuple[Import, ...]:
    """Every import in tfapp, inside functions and type-checking blocks too."""
    known = modules()
    return tuple(
        Import(name, imported)
        for name, path in known.items()
        for imported in _imports_of(path, known)
    )


def _imports_of(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                yield member if member in known else str(node.module)


def cycles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """The rings of `edges`, each as the modules along it."""
    following: dict[str, list[str]] = {}
    for start, end in sorted(edges):
        following.setdefault(start, []).append(end)
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(module: str, trail: list[str]) -> None:
        if module in trail:
            found.append([*trail[trail.index(module) :], module])
        elif module not in done:
            for after in following.get(module, ()):
                visit(after, [*trail, module])
            done.add(module)

    for module in list(following):
        visit(module, [])
    return found
