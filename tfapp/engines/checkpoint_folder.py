"""A checkpoint folder in the file system of this machine, or at a URL that tfapp.storage opens."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from tfapp.engines import refusals
from tfapp.engines.base import Checkpoints, StoredFile
from tfapp.errors import UnavailableError
from tfapp.storage import folders
from tfapp.storage.base import Store

_URL = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


class FolderCheckpoints:
    def __init__(self, folder: Path):
        self.place = str(folder)
        self._folder = folder

    def files(self, path: str) -> tuple[StoredFile, ...]:
        start = self._folder / path
        found = []
        try:
            if not start.is_dir():
                found = list(self._file(start))
                if not found:
                    raise refusals.no_stored_file(path, self.place)
                return tuple(found)
            for folder, _, names in os.walk(start, onerror=_raise):
                for name in names:
                    found += self._file(Path(folder, name))
        except PermissionError as error:
            raise _unreadable(error) from error
        return tuple(sorted(found, key=lambda file: file.path))

    def _file(self, path: Path) -> Iterator[StoredFile]:
        """Yields the file; nothing if it is no regular file or has disappeared."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            about = path.stat()
            if stat.S_ISREG(about.st_mode):
                yield StoredFile(path.relative_to(self._folder).as_posix(), about.st_size)

    def copy(self, path: str, folder: Path) -> None:
        for file in self.files(path):
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            source = self._folder / file.path
            try:
                shutil.copy2(source, target)
            except PermissionError as error:
                if error.filename != str(source):
                    raise
                raise _unreadable(error) from error
            except FileNotFoundError:
                if source.exists():
                    raise
                target.unlink(missing_ok=True)


class UrlCheckpoints:
    """See tfapp.engines.base.Checkpoints."""

    def __init__(self, store: Store, url: str):
        self.place = url.rstrip("/")
        self._store = store

    def files(self, path: str) -> tuple[StoredFile, ...]:
        url = f"{self.place}/{path}" if path else self.place
        with folders.opening(url):
            try:
                found = list(folders.walk(self._store, url))
            except FileNotFoundError:
                raise refusals.no_stored_file(path, self.place) from None
        paths = ((f"{path}/{below}".strip("/"), size) for below, size in found)
        return tuple(sorted((StoredFile(*one) for one in paths), key=lambda file: file.path))

    def copy(self, path: str, folder: Path) -> None:
        for file in self.files(path):
            target, url = folder / file.path, f"{self.place}/{file.path}"
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError), folders.opening(url):
                folders.fetch(self._store, url, target)


def stored_checkpoints(name: str, folder: str, schemes: str = "") -> Checkpoints:
    """The checkpoints of the application `name` in `folder`: a path, a URL, or "" for none.
    `schemes`: ApplicationStatus.storage_schemes. NotFoundError for none, UnavailableError for a URL
    that cannot be opened here."""
    if not folder:
        raise refusals.no_checkpoints(name)
    if not is_url(folder):
        return FolderCheckpoints(Path(folder.removeprefix("file://")))
    store = folders.store_of(folder, schemes=schemes)
    if store is None:
        raise UnavailableError(
            f"{folder} is not a folder of this machine",
            f"Fetch it with a client of {folder.partition('://')[0]}://.",
        )
    return UrlCheckpoints(store, folder)


def is_url(folder: str) -> bool:
    """Whether a checkpoint folder is a URL, and not one of files."""
    return _URL.match(folder) is not None


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _unreadable(error: OSError) -> UnavailableError:
    return UnavailableError(f"{error.filename} cannot be read: {error.strerror}")
