"""The part of tfapp that is shipped with every application: its own source files, with their
bytecode, so that containers with the same version of Python do not compile them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import tfapp

MODULES = (
    "__init__.py",
    "course.py",
    "disk.py",
    "errors.py",
    "frozen.py",
    "listener.py",
    "placeholders.py",
    "problems.py",
    "processes.py",
    "ready.py",
    "script.py",
    "standalone/__init__.py",
    "standalone/bootstrap.py",
    "standalone/watchdog.py",
    "temporary.py",
    "threads.py",
)
PACKAGES = ("contract", "coordinator", "page", "runner", "protocol", "storage")
OF_PAGES = "page/page.*"
OF_ENGINES = ("engines/*/nodes.py", "engines/*/attempts.py")  # see tfapp.coordinator.nodes
ENTRY_POINT = "compiler/container_main.py"

# Of .pyc files.
_HEADER = 16  # bytes; https://peps.python.org/pep-0552/
_TIMESTAMP, _UNCHECKED_HASH, _CHECKED_HASH = (n.to_bytes(4, "little") for n in (0, 1, 3))


def read_runtime(more: Iterable[str] = (), compiled: bool = True) -> tuple[tuple[str, bytes], ...]:
    """(path in the archive, content) of every shipped file, sorted.

    Reads the files of the installed tfapp. In a container `python RUNTIME_DIR runner` runs its
    `__main__.py`. `more`: patterns of further files below tfapp/, which can be imported from the
    archive as it is. `compiled`: with bytecode."""
    root = Path(tfapp.__file__).parent
    paths = [root / name for name in MODULES]
    for package in PACKAGES:
        paths += (root / package).rglob("*.py")
    paths += (path for pattern in (*OF_ENGINES, OF_PAGES) for path in root.glob(pattern))
    further = [path for pattern in more for path in root.glob(pattern)]
    paths += further
    files = {f"tfapp/{path.relative_to(root).as_posix()}": path for path in paths}
    files["__main__.py"] = root / ENTRY_POINT
    # Python imports nothing from an archive below a folder without one.
    folders = {parent for path in further for parent in path.relative_to(root).parents}
    content = {str(PurePosixPath("tfapp", folder, "__init__.py")): b"" for folder in folders}
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


def bytecode(path: Path, source: bytes) -> bytes | None:
    """The content of a .pyc for the source file `path`, whose content is `source`. It is valid
    wherever the .pyc lies beside that file, whatever the file's time is, because an archive does
    not keep times. The bytecode comes from Python's own cache, where it is compiled first if it is
    missing: two compilations of one source may differ in their bytes. None when there is no such
    cache or it is not writable."""
    try:
        cached = Path(importlib.util.cache_from_source(os.fspath(path), optimization=""))
    except NotImplementedError:
        return None
    found = _read(cached)
    if not _is_of(found, path, source):
        _make(path, cached)
        found = _read(cached)
    if not _is_of(found, path, source):
        return None
    prefix = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    return prefix + found[_HEADER:]


def _read(cached: Path) -> bytes:
    try:
        return cached.read_bytes()
    except OSError:
        return b""


def _is_of(found: bytes, path: Path, source: bytes) -> bool:
    """Whether Python would use this .pyc for `path` as the file is now."""
    magic, kind, rest = found[:4], found[4:8], found[8:_HEADER]
    if magic != importlib.util.MAGIC_NUMBER or len(found) <= _HEADER:
        return False
    if kind in (_UNCHECKED_HASH, _CHECKED_HASH):
        return rest == importlib.util.source_hash(source)
    changed = int(path.stat().st_mtime) & 0xFFFFFFFF
    return kind == _TIMESTAMP and rest == b"".join(
        number.to_bytes(4, "little") for number in (changed, len(source))
    )


def _make(path: Path, cached: Path) -> None:
    import py_compile

    try:
        py_compile.compile(
            os.fspath(path),
            os.fspath(cached),
            doraise=True,
            optimize=0,
            invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP,
        )
    except (OSError, py_compile.PyCompileError):
        return
