"""The part of tfapp that travels with every application: its own source files."""

from __future__ import annotations

from pathlib import Path

import tfapp

MODULES = (
    "__init__.py",
    "contract.py",
    "errors.py",
    "placeholders.py",
    "problems.py",
    "script.py",
    "skein_calls.py",
    "skein_library.py",
)
PACKAGES = ("coordinator", "runner")
ENTRY_POINT = "compiler/container_main.py"


def read_runtime() -> tuple[tuple[str, bytes], ...]:
    """(path in the archive, content) of every shipped source file, sorted.

    Reads the files of the installed tfapp. In a container `python RUNTIME_DIR runner` starts
    what is `__main__.py` there.
    """
    root = Path(tfapp.__file__).resolve().parent
    paths = [root / name for name in MODULES]
    for package in PACKAGES:
        paths += (root / package).rglob("*.py")
    files = {f"tfapp/{path.relative_to(root).as_posix()}": path for path in paths}
    files["__main__.py"] = root / ENTRY_POINT
    return tuple((name, files[name].read_bytes()) for name in sorted(files))
