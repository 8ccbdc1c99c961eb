"""The content of an application's archives, the package's files and the user's own, and how it
becomes one .zip whose bytes depend on nothing but the files' names, modes and content."""

from __future__ import annotations

import dataclasses
import io
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen
from tfapp.package.model import FILES, AppPackage
from tfapp.package.safety import UnsafeSourceError, check_collisions
from tfapp.problems import Position, Problem

MAX_USER_FILES = 1 << 30  # bytes: archives are made in memory and copied to every container
# Stored, not deflated: compressed bytes differ between zlib versions, and the archive's name is
# the hash of its bytes. Fields that zipfile would fill in by platform or clock are fixed.
_COMPRESSION = zipfile.ZIP_STORED
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_REGULAR = 0o100000

# YARN unpacks an archive without entries to no folder at all.
EMPTY_ENTRY = ".empty"


@frozen
class UserFile:
    """A file of the submitting user. `path` is below `files/`, `size` in bytes."""

    path: str
    origin: Path
    size: int
    executable: bool


def package_entries(package: AppPackage) -> Iterator[ArchiveEntry]:
    """The package without `files/`, sorted; read from its source as they are asked for."""
    for path in package.source.files():
        if not path.startswith(FILES):
            yield ArchiveEntry(path, package.source.read(path), package.source.executable(path))


def file_entries(package: AppPackage, user_files: tuple[UserFile, ...]) -> Iterator[ArchiveEntry]:
    """`files/` of the package and the user's own files, which win, sorted; each is read as it
    is asked for."""
    own = {file.path: file for file in user_files}
    for path in sorted(own.keys() | _packaged(package)):
        if path in own:
            yield ArchiveEntry(path, _read(own[path].origin), own[path].executable)
        else:
            inside = FILES + path
            yield ArchiveEntry(path, package.source.read(inside), package.source.executable(inside))


def inspect_user_files(package: AppPackage) -> tuple[UserFile, ...]:
    """Size and mode of the user's files. No file is read. NotFoundError for a missing one;
    UnavailableError when one cannot be looked at, or when all together are too large to ship: the
    message names the largest."""
    found = tuple(_inspect(path, origin) for path, origin in package.user_files.items())
    total = sum(file.size for file in found)
    if total > MAX_USER_FILES:
        largest = max(found, key=lambda file: file.size)
        raise UnavailableError(
            f"the files to ship are {_mebibytes(total)} together, the limit is "
            f"{_mebibytes(MAX_USER_FILES)}; the largest is {largest.origin} "
            f"({_mebibytes(largest.size)})",
            "Ship programs only; give data a path that every instance can read, and name it in "
            "site.global.user.data.dir.",
        )
    return found


def check_files(package: AppPackage) -> Iterator[Problem]:
    """Problems: user's files that conflict with files of the package."""
    try:
        check_collisions(package.user_files.keys() | _packaged(package))
    except UnsafeSourceError as refused:
        at = Position(package.source.label)
        yield Problem(at, refused.code, f"with --files: {refused.message}", hint=refused.hint)


def _packaged(package: AppPackage) -> set[str]:
    paths = package.source.files()
    return {path[len(FILES) :] for path in paths if path.startswith(FILES)}


def _inspect(path: str, origin: Path) -> UserFile:
    try:
        status = origin.stat()
    except OSError as error:
        raise _unreadable(origin, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise UnavailableError(f"{origin} is not a regular file", "Only files can be shipped.")
    return UserFile(path, origin, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _read(origin: Path) -> bytes:
    try:
        return origin.read_bytes()
    except OSError as error:
        raise _unreadable(origin, error) from error


def _unreadable(origin: Path, error: OSError) -> NotFoundError | UnavailableError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{origin} does not exist", "Check what --files names.")
    return UnavailableError(f"{origin} cannot be read: {error.strerror}")


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


@frozen
class ArchiveEntry:
    """One regular file of an archive; `path` is relative and '/'-separated."""

    path: str
    data: bytes = dataclasses.field(repr=False)
    executable: bool = False


def pack(entries: Iterable[ArchiveEntry], small: bool = False) -> bytes:
    """A .zip of `entries`, which come sorted by path, so that equal files are equal bytes; with
    `small` it is compressed, and only one zlib makes equal bytes.

    They may come from a generator: one entry is held at a time. ValueError for a path that is
    out of order, written twice, or leaves the archive.
    """
    target = io.BytesIO()
    last = ""
    with zipfile.ZipFile(target, "w", _COMPRESSION) as archive:
        for entry in entries:
            _check_path(entry.path, last)
            how = zipfile.ZIP_DEFLATED if small else _COMPRESSION
            archive.writestr(_info(entry.path, entry.executable), entry.data, how)
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
