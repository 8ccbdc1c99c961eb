"""A package in a .zip file."""

from __future__ import annotations

import dataclasses
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen
from tfapp.package.safety import (
    NOT_SHIPPED,
    UNUSABLE,
    UnsafeSourceError,
    check_collisions,
    check_limits,
    check_name,
)

MAX_RATIO = 100  # all files unpacked, to the size of the .zip...
SMALL_TOTAL = 16 * 1024**2  # ...when they are more bytes than this


@frozen
class ZipSource:
    """A package in a .zip file. `members` maps each file's name to its entry."""

    label: str
    archive: Path
    members: Mapping[str, zipfile.ZipInfo] = dataclasses.field(compare=False, repr=False)

    def files(self) -> tuple[str, ...]:
        return tuple(self.members)

    def read(self, path: str) -> bytes:
        """Content of one file, never more than its entry declares. NotFoundError when there is
        none, UnavailableError when it cannot be read."""
        member = self._find(path)
        try:
            with zipfile.ZipFile(self.archive) as archive:
                return archive.read(member)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UnavailableError(f"{self.label}/{path} cannot be read: {error}") from error

    def executable(self, path: str) -> bool:
        return bool(self._find(path).external_attr >> 16 & stat.S_IXUSR)

    def _find(self, path: str) -> zipfile.ZipInfo:
        if path not in self.members:
            raise NotFoundError(f"{self.label} has no file {path}")
        return self.members[path]


def list_zip(path: Path) -> dict[str, zipfile.ZipInfo]:
    """Every regular file of the .zip at `path`, sorted; where one folder has them all, the paths
    are relative to it. UnsafeSourceError when it is no .zip, or when one of its entries is not safe
    to ship."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
        hint = "give the folder of an app package, or a .zip of one"
        raise UnsafeSourceError(
            "", f"this is neither a folder nor a .zip: {error}", hint, UNUSABLE
        ) from error
    found: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for entry in entries:
        name = _name(entry)
        if entry.is_dir() or not NOT_SHIPPED.isdisjoint(name.split("/")):
            continue
        _check_entry(name, entry)
        if name in found:
            raise UnsafeSourceError(name, "the .zip holds two files of this name", "make it again")
        found[name] = entry
        total += entry.file_size
        check_limits(len(found), total)
    _check_ratio(total, path.stat().st_size)
    check_collisions(found)
    return dict(sorted(_without_folder(found).items()))


def _without_folder(found: Mapping[str, zipfile.ZipInfo]) -> Mapping[str, zipfile.ZipInfo]:
    """The members below the folder that contains all of them, as an archive of a package's folder
    has it. A package has files at its top, so such a folder is not part of the package."""
    folders = {name.partition("/")[0] for name in found}
    if len(folders) != 1 or not all("/" in name for name in found):
        return found
    return {name.partition("/")[2]: entry for name, entry in found.items()}


def _name(entry: zipfile.ZipInfo) -> str:
    # zipfile cuts a name at a NUL; orig_filename is what the archive really says.
    return check_name(PurePosixPath(check_name(entry.orig_filename)).as_posix())


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        raise UnsafeSourceError(name, "the .zip holds a link", "put the file itself in")
    if kind not in (0, stat.S_IFREG):
        raise UnsafeSourceError(name, "this is not a regular file", "leave it out")
    if entry.flag_bits & 1:
        raise UnsafeSourceError(name, "this file is encrypted", "make the .zip without a password")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        message = "its compression is neither 'stored' nor 'deflated'"
        raise UnsafeSourceError(name, message, "make the .zip again with one of these")


def _check_ratio(total: int, packed: int) -> None:
    if total > max(SMALL_TOTAL, MAX_RATIO * packed):
        message = f"this .zip of {packed} bytes unpacks to {total} bytes"
        hint = f"more than {MAX_RATIO} to 1 is taken for an attack; give the folder instead"
        raise UnsafeSourceError("", message, hint, UNUSABLE)
