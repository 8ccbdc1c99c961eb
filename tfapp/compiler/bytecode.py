"""The bytecode of a source file, for interpreters of this one's version."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

_HEADER = 16  # bytes; https://peps.python.org/pep-0552/
_TIMESTAMP, _UNCHECKED_HASH, _CHECKED_HASH = (n.to_bytes(4, "little") for n in (0, 1, 3))


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
