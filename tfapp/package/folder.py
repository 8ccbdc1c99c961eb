"""A package, or a user's files, in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen
from tfapp.package.safety import (
    NOT_SHIPPED,
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
        """Every regular file, sorted."""
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
        """Whether the file's owner may execute it."""
        return bool(self._find(path).stat().st_mode & stat.S_IXUSR)

    def _find(self, path: str) -> Path:
        if path not in self.paths:
            raise NotFoundError(f"{self.label} has no file {path}")
        return self.paths[path]


def list_folder(root: Path) -> dict[str, Path]:
    """Every regular file below `root` by its relative path, sorted, without those of virtual
    environments and of version control. UnsafeSourceError when one is
    not safe to ship, OSError when a folder cannot be read."""
    real_root = root.resolve()
    found: dict[str, Path] = {}
    total = 0
    for relative, entry in _walk(root, ""):
        check_name(relative)
        total += _regular(relative, entry, real_root).st_size
        found[relative] = Path(entry.path)
        check_limits(len(found), total)
    check_collisions(found)
    return dict(sorted(found.items()))


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        children = [entry for entry in entries if entry.name not in NOT_SHIPPED]
    for entry in sorted(children, key=lambda child: child.name):
        if entry.is_dir(follow_symlinks=False):
            if os.path.exists(os.path.join(entry.path, VIRTUAL_ENVIRONMENT)):
                continue
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry


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
    if real_root not in target.parents:
        message = "this link leads out of the package"
        raise UnsafeSourceError(relative, message, "put the file itself in its place")
    if target.is_dir():
        message = "this is a link to a folder"
        raise UnsafeSourceError(relative, message, "put the folder itself in its place")
