"""A folder of files that tfapp itself keeps: a path of this machine, or a URL."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tfapp.errors import UnavailableError
from tfapp.storage import base, folders


class Place(Protocol):
    """The methods raise UnavailableError for whatever the place says. A name has no "/"."""

    def names(self) -> Sequence[str]:
        """The names in it; none where there is no such folder."""

    def read(self, folder: str, name: str, most: int) -> bytes | None:
        """The content of a file in one of its folders, None where there is none. UnavailableError
        for one of more than `most` bytes."""

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Writes a file into one of its folders, which is made if it is not there. It appears as a
        whole."""

    def remove(self, folder: str) -> None:
        """Removes one of its folders, if it is there, with all files."""


def place_at(where: str, environ: Mapping[str, str] = os.environ) -> Place:
    """The place at a path or a URL; `environ` has the settings and credentials for a URL.
    UnavailableError for a URL that nothing opens here."""
    store = folders.store_of(where, environ)
    if store is not None:
        return _Stored(store, where.rstrip("/"))
    path = where[len("file://") :] if where.startswith("file://") else where
    if "://" in path:
        scheme = path.partition("://")[0]
        raise UnavailableError(
            f"{where} cannot be opened: tfapp opens no {scheme}://",
            f"Write a path or another URL, or set site.global.storage.schemes: {scheme} (for "
            f"commands: TFAPP_STORAGE_SCHEMES={scheme}), if fsspec has it.",
        )
    return _Local(Path(path))


class _Local:
    def __init__(self, path: Path):
        self._path = path

    def names(self) -> Sequence[str]:
        with _using(self._path), contextlib.suppress(FileNotFoundError):
            return os.listdir(self._path)
        return ()

    def read(self, folder: str, name: str, most: int) -> bytes | None:
        path = self._path / folder / name
        with _using(path), contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            content = file.read(most + 1)
            _check(path, len(content), most)
            return content
        return None

    def write(self, folder: str, name: str, content: bytes) -> None:
        path = self._path / folder / name
        with _using(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = Path(base.unfinished(str(path)))
            try:
                hidden.write_bytes(content)
                hidden.replace(path)
            finally:
                hidden.unlink(missing_ok=True)

    def remove(self, folder: str) -> None:
        path = self._path / folder
        with _using(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)


@contextlib.contextmanager
def _using(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror or error}") from error


class _Stored:
    def __init__(self, store: base.Store, url: str):
        self._store, self._url = store, url

    def names(self) -> Sequence[str]:
        with contextlib.suppress(FileNotFoundError), folders.opening(self._url):
            return self._store.children(self._url)
        return ()

    def read(self, folder: str, name: str, most: int) -> bytes | None:
        url = f"{self._url}/{folder}/{name}"
        with contextlib.suppress(FileNotFoundError), folders.opening(url):
            source = self._store.source(url)
            _check(url, source.length, most)
            return b"".join(base.blocks(source))
        return None

    def write(self, folder: str, name: str, content: bytes) -> None:
        url = f"{self._url}/{folder}/{name}"
        with folders.opening(url):
            folders.put(self._store, [content], url)

    def remove(self, folder: str) -> None:
        url = f"{self._url}/{folder}"
        with contextlib.suppress(FileNotFoundError), folders.opening(url):
            self._store.remove_tree(url)


def _check(place: object, size: int, most: int) -> None:
    if size > most:
        raise UnavailableError(f"{place} has more than {most} bytes")
