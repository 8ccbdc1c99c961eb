"""Files -> one .zip whose bytes depend on nothing but the files' names, modes and content."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Iterable

from tfapp.frozen import frozen

# Stored, not deflated: compressed bytes differ between zlib versions, and the archive's name is
# the hash of its bytes. Fields that zipfile would fill in by platform or clock are fixed.
_COMPRESSION = zipfile.ZIP_STORED
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_REGULAR = 0o100000

# YARN unpacks an archive without entries to no folder at all.
EMPTY_ENTRY = ".empty"


@frozen
class Entry:
    """One regular file of an archive; `path` is relative and '/'-separated."""

    path: str
    data: bytes = dataclasses.field(repr=False)
    executable: bool = False


def pack(entries: Iterable[Entry]) -> bytes:
    """A .zip of `entries`, which come sorted by path, so that equal files are equal bytes.

    They may come from a generator: one entry is held at a time. ValueError for a path that is
    out of order, written twice, or leaves the archive.
    """
    target = io.BytesIO()
    last = ""
    with zipfile.ZipFile(target, "w", _COMPRESSION) as archive:
        for entry in entries:
            _check_path(entry.path, last)
            archive.writestr(_info(entry.path, entry.executable), entry.data)
            last = entry.path
        if not last:
            archive.writestr(_info(EMPTY_ENTRY, False), b"")
    return target.getvalue()


def _info(path: str, executable: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, _EPOCH)
    info.compress_type = _COMPRESSION
    info.create_system = _UNIX
    info.external_attr = (_REGULAR | (0o755 if executable else 0o644)) << 16
    return info


def _check_path(path: str, last: str) -> None:
    if path <= last:
        raise ValueError(f"{path!r} comes after {last!r}: entries are sorted and unique")
    if "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} is not a path inside an archive")
