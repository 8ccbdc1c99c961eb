"""The part of tfapp that is shipped with every application: its own source files, with their
bytecode, so that containers with the same version of Python do not compile them."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import tfapp
from tfapp.compiler.bytecode import bytecode

MODULES = (
    "__init__.py",
    "errors.py",
    "frozen.py",
    "placeholders.py",
    "problems.py",
    "processes.py",
    "script.py",
)
PACKAGES = ("contract", "coordinator", "page", "runner", "protocol")
OF_PAGES = "page/page.*"
OF_ENGINES = "engines/*/nodes.py"  # see tfapp.coordinator.nodes
OF_MASTER = ("master/*.py", "engines/kubernetes/pod/*.py")
WITH_MASTER = ("engines/kubernetes/names.py", "engines/kubernetes/record.py")
# Python imports nothing from an archive below a folder without one.
EMPTY = ("tfapp/engines/__init__.py", "tfapp/engines/kubernetes/__init__.py")
ENTRY_POINT = "compiler/container_main.py"


def read_runtime(master: bool = False, compiled: bool = True) -> tuple[tuple[str, bytes], ...]:
    """(path in the archive, content) of every shipped file, sorted.

    Reads the files of the installed tfapp. In a container `python RUNTIME_DIR runner` runs its
    `__main__.py`. `master`: with the master for pods, which runs from the archive as it is, by
    `python runtime.zip master`. `compiled`: with bytecode."""
    root = Path(tfapp.__file__).parent
    paths = [root / name for name in MODULES]
    for package in PACKAGES:
        paths += (root / package).rglob("*.py")
    paths += (path for pattern in (OF_ENGINES, OF_PAGES) for path in root.glob(pattern))
    if master:
        paths += [path for pattern in OF_MASTER for path in root.glob(pattern)]
        paths += [root / name for name in WITH_MASTER]
    files = {f"tfapp/{path.relative_to(root).as_posix()}": path for path in paths}
    files["__main__.py"] = root / ENTRY_POINT
    content = dict.fromkeys(EMPTY, b"") if master else {}
    for name, path in files.items():
        content[name] = source = path.read_bytes()
        made = bytecode(path, source) if compiled and path.suffix == ".py" else None
        if made is not None:
            content[_cache_name(name)] = made
    return tuple(sorted(content.items()))


def _cache_name(name: str) -> str:
    """The path at which Python looks for the bytecode of `name` by default."""
    path = PurePosixPath(name)
    return str(path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc")
