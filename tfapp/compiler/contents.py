"""The content of an application's archives: the package's files, and the user's own."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from tfapp.compiler.archive import Entry
from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen
from tfapp.package.model import FILES, AppPackage
from tfapp.package.safety import UnsafeSourceError, check_collisions
from tfapp.problems import Position, Problem

MAX_USER_FILES = 1 << 30  # bytes: archives are made in memory and copied to every container


@frozen
class UserFile:
    """A file of the submitting user. `path` is below `files/`, `size` in bytes."""

    path: str
    origin: Path
    size: int
    executable: bool


def package_entries(package: AppPackage) -> Iterator[Entry]:
    """The package without `files/`, sorted; read from its source as they are asked for."""
    for path in package.source.files():
        if not path.startswith(FILES):
            yield Entry(path, package.source.read(path), package.source.executable(path))


def file_entries(package: AppPackage, user_files: tuple[UserFile, ...]) -> Iterator[Entry]:
    """`files/` of the package and the user's own files, which win, sorted; each is read as it
    is asked for."""
    own = {file.path: file for file in user_files}
    for path in sorted(own.keys() | _packaged(package)):
        if path in own:
            yield Entry(path, _read(own[path].origin), own[path].executable)
        else:
            inside = FILES + path
            yield Entry(path, package.source.read(inside), package.source.executable(inside))


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
