"""The part of tfapp that travels with every application: its own source files, and what this
Python has made of them, so that nothing is compiled in containers of the same version."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import tfapp
from tfapp.compiler.bytecode import bytecode

MODULES = (
    "__init__.py",
    "errors.py",
    "placeholders.py",
    "problems.py",
    "script.py",
    "skein_library.py",
)
PACKAGES = ("contract", "coordinator", "runner", "skein_calls")
ENTRY_POINT = "compiler/container_main.py"


def read_runtime() -> tuple[tuple[str, bytes], ...]:
    """(path in the archive, content) of every shipped file, sorted.

    Reads the files of the installed tfapp. In a container `python RUNTIME_DIR runner` starts
    what is `__main__.py` there.
    """
    root = Path(tfapp.__file__).parent
    paths = [root / name for name in MODULES]
    for package in PACKAGES:
        paths += (root / package).rglob("*.py")
    files = {f"tfapp/{path.relative_to(root).as_posix()}": path for path in paths}
    files["__main__.py"] = root / ENTRY_POINT
    content = {}
    for name, path in files.items():
        content[name] = source = path.read_bytes()
        compiled = bytecode(path, source)
        if compiled is not None:
            content[_cache_name(name)] = compiled
    return tuple(sorted(content.items()))


def _cache_name(name: str) -> str:
    """Where Python looks for the bytecode of `name` when nothing tells it to look elsewhere."""
    path = PurePosixPath(name)
    return str(path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc")
