"""A package, or a user's files, in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen
from tfapp.package.safety import (
    IGNORE_FILE,
    NOT_SHIPPED,
    UNTOLD,
    UNUSABLE,
    VIRTUAL_ENVIRONMENT,
    UnsafeSourceError,
    check_collisions,
    check_limits,
    check_name,
)


@frozen
class FolderSource:
    """A package in a folder. `paths` maps each file's name to where it is."""

    label: str
    paths: Mapping[str, Path]

    def files(self) -> tuple[str, ...]:
        return tuple(self.paths)

    def read(self, path: str) -> bytes:
        """Content of one file. NotFoundError when there is none, UnavailableError when it cannot
        be read."""
        try:
            return self._find(path).read_bytes()
        except OSError as error:
            message = f"{self.label}/{path} cannot be read: {error.strerror}"
            raise UnavailableError(message) from error

    def executable(self, path: str) -> bool:
        return bool(self._find(path).stat().st_mode & stat.S_IXUSR)

    def _find(self, path: str) -> Path:
        if path not in self.paths:
            raise NotFoundError(f"{self.label} has no file {path}")
        return self.paths[path]


class Listing(NamedTuple):
    """`files`: by their relative paths, sorted. `size`: bytes of all of them. `left_out`: relative
    paths of files and folders that are not shipped, and why, "" where the name says it."""

    files: dict[str, Path]
    size: int
    left_out: tuple[tuple[str, str], ...]


def list_folder(root: Path) -> Listing:
    """Every regular file below `root`, but for virtual environments, version control, what tools
    keep, and what the patterns of its IGNORE_FILE match. UnsafeSourceError when one is not safe to
    ship, OSError when a folder cannot be read."""
    real_root = root.resolve()
    found: dict[str, Path] = {}
    left_out: list[tuple[str, str]] = []
    total = 0
    for relative, entry in _walk(root, "", _ignored(root), left_out):
        check_name(relative)
        total += _regular(relative, entry, real_root).st_size
        found[relative] = Path(entry.path)
        check_limits(len(found), total)
    check_collisions(found)
    return Listing(dict(sorted(found.items())), total, tuple(left_out))


def _ignored(root: Path) -> Callable[[str], bool]:
    """Whether the root's IGNORE_FILE matches a relative path; a folder's ends with a slash."""
    try:
        lines = (root / IGNORE_FILE).read_text().splitlines()
    except FileNotFoundError:
        return lambda _: False
    import pathspec  # where there is such a file alone

    try:
        matches: Callable[[str], bool] = pathspec.GitIgnoreSpec.from_lines(lines).match_file
    except ValueError as error:
        hint = "write patterns as in a .gitignore"
        raise UnsafeSourceError(IGNORE_FILE, str(error), hint, UNUSABLE) from None
    return matches


def _walk(
    folder: Path, prefix: str, ignored: Callable[[str], bool], left_out: list[tuple[str, str]]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        children = sorted(entries, key=lambda child: child.name)
    for entry in children:
        is_folder = entry.is_dir(follow_symlinks=False)
        name = f"{prefix}{entry.name}{'/' if is_folder else ''}"
        if entry.name in UNTOLD:
            continue
        if entry.name in NOT_SHIPPED:
            left_out.append((name, ""))
        elif ignored(name):
            left_out.append((name, IGNORE_FILE))
        elif not is_folder:
            yield name, entry
        elif os.path.exists(os.path.join(entry.path, VIRTUAL_ENVIRONMENT)):
            left_out.append((name, "a virtual environment"))
        else:
            yield from _walk(Path(entry.path), name, ignored, left_out)


def _regular(relative: str, entry: os.DirEntry[str], real_root: Path) -> os.stat_result:
    if entry.is_symlink():
        _check_link(relative, Path(entry.path), real_root)
    info = entry.stat()
    if not stat.S_ISREG(info.st_mode):
        raise UnsafeSourceError(relative, "this is not a regular file", "remove it")
    return info


def _check_link(relative: str, link: Path, real_root: Path) -> None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a ring of links, before Python 3.13
        raise UnsafeSourceError(relative, "this link leads to nothing", "remove it") from error
    if real_root not in (target, *target.parents):
        message = "this link leads out of the package"
        raise UnsafeSourceError(relative, message, "put the file itself in its place")
    if target.is_dir():
        message = "this is a link to a folder"
        raise UnsafeSourceError(relative, message, "put the folder itself in its place")
