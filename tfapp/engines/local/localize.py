"""A spec's files, brought into containers' working directories: each source is copied or unpacked
once for a run, and every container gets links."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, Optional

from tfapp.engines.disk import delete_tree, make_private
from tfapp.engines.local.protocol import messages
from tfapp.environment.archive import UnfitError
from tfapp.environment.unpacked import extract, folder_of
from tfapp.errors import UnavailableError

# (path inside the archive, mode, opens its content; None for a folder)
Member = tuple[str, int, Optional[Callable[[], Optional[IO[bytes]]]]]


_TARS = (".tar", ".tar.gz", ".tgz")


class Localizer:
    """The sources of one run, in `folder`. Containers may ask at the same time. A Python
    environment that lies in `environments` is not unpacked again."""

    def __init__(self, folder: Path, environments: Path | None = None):
        self._folder = folder
        self._environments = environments
        self._ready: dict[tuple[str, bool], asyncio.Future[Path]] = {}

    async def place(self, files: Mapping[str, Any], into: Path) -> None:
        """Links all `files` (target -> Skein's File) into the folder `into`. UnavailableError
        or OSError when a source cannot be had."""
        for target, file in files.items():
            name = os.path.normpath(target)
            if name in (".", "..") or "/" in name:
                raise UnavailableError(f"{target!r} cannot be a file's name in a container")
            (into / name).symlink_to(await self._source(file))

    async def _source(self, file: Any) -> Path:
        archive = file.type == messages.File.ARCHIVE
        key = (local_path(file.source), archive)
        if key not in self._ready:
            self._ready[key] = asyncio.ensure_future(asyncio.to_thread(self._fetch, *key))
        return await asyncio.shield(self._ready[key])

    def _fetch(self, source: str, archive: bool) -> Path:
        if archive and self._environments is not None:
            unpacked = folder_of(Path(source), self._environments)
            if unpacked.exists():
                return unpacked
        digest = hashlib.sha256(f"{source}\0{archive}".encode()).hexdigest()[:16]
        folder = make_private(self._folder / digest)
        target = folder / os.path.basename(source)
        if archive:
            unpack(Path(source), target)
        else:
            shutil.copy(source, target)
        return target


def local_path(url: Any) -> str:
    """The path that a Skein Url names on this machine. UnavailableError for another place."""
    if url.scheme not in ("", "file") or url.host:
        raise UnavailableError(
            f"{url.scheme}://{url.host}{url.file} is not a file of this machine",
            "The local engine runs what lies on local disks.",
        )
    return url.file


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a .zip, .tar, .tar.gz or .tgz; all or nothing. UnavailableError for a zip with a
    path out of the archive, or with anything but files and folders, and for what tar refuses."""
    partial = target.with_name(f".{target.name}.partial")
    delete_tree(partial)
    partial.mkdir(mode=0o700)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            _write_all(archive, _zip_members(file), partial)
    elif archive.name.endswith(_TARS):
        try:
            extract(archive, partial)
        except UnfitError as error:
            raise UnavailableError(f"{archive} {error}") from error
    else:
        raise UnavailableError(f"{archive} is neither a zip nor a tar archive")
    partial.rename(target)


def _write_all(archive: Path, members: Iterator[Member], folder: Path) -> None:
    for name, mode, open_content in members:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or "\\" in name:
            raise UnavailableError(f"{archive} has a path that leads out of it: {name!r}")
        path = folder / inside
        if open_content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        source = open_content()
        assert source is not None, "only files and folders come here"
        with source, open(path, "xb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        path.chmod((mode & 0o777 or 0o644) | 0o600)


def _zip_members(file: zipfile.ZipFile) -> Iterator[Member]:
    for info in file.infolist():
        mode = info.external_attr >> 16
        if info.is_dir():
            yield info.filename, mode, None
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise UnavailableError(f"{file.filename} has a link or device: {info.filename!r}")
        else:
            yield info.filename, mode, functools.partial(file.open, info)
