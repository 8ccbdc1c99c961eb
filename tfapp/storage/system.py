"""The file system of fsspec over a Store. The libraries' own ones lose what follows `#` and `?` in
a name and have no deadlines, and that of obstore ends one process in a hundred by SIGABRT."""

from __future__ import annotations

import functools
import io
from typing import Any

import fsspec
from fsspec import AbstractFileSystem

from tfapp.contract.names import OPENED_SCHEMES
from tfapp.storage import base
from tfapp.storage.base import BLOCK, Failed, Source, Status, Store, Writer
from tfapp.storage.folders import store_of


class StoreFileSystem(AbstractFileSystem):
    """Paths are URLs. Errors are OSError, with the URL and what to do."""

    cachable = False
    root_marker = ""

    def __init__(self, store: Store, **more: Any):
        super().__init__(**more)
        self._store = store

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return [one.rstrip("/") for one in path] if isinstance(path, list) else path.rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        return name

    def _do(self, method: str, path: str, *arguments: Any) -> Any:
        try:
            return getattr(self._store, method)(path, *arguments)
        except OSError as error:
            raise type(error)(base.told(error, path)[1]) from error
        except (Failed, ValueError) as error:
            raise OSError(base.told(error, path)[1]) from error

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        found: Status = self._do("stat", path)
        kind = "directory" if found.is_folder else "file"
        return {"name": path, "size": found.length, "type": kind, "mtime": found.modified / 1e9}

    def ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if not self._do("stat", path).is_folder:
            return [self.info(path) if detail else path]
        names = [f"{path}/{name}" for name in self._do("children", path)]
        return [self.info(name) for name in names] if detail else names

    def mkdir(self, path: str, create_parents: bool = True, **more: Any) -> None:
        self._do("make_folder", self._strip_protocol(path), False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not exist_ok and self.exists(path):
            raise FileExistsError(f"{path}: there is a folder or a file of this name")
        self._do("make_folder", self._strip_protocol(path), True)

    def rmdir(self, path: str) -> None:
        self._do("remove_folder", self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self._do("remove", self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in self._strip_protocol(path if isinstance(path, list) else [path]):
            is_tree = recursive and self.isdir(one)
            self._do("remove_tree" if is_tree else "remove", one)

    def cp_file(self, path1: str, path2: str, **more: Any) -> None:
        self._do("copy", self._strip_protocol(path1), self._strip_protocol(path2))

    def mv(self, path1: str, path2: str, *others: Any, **more: Any) -> None:
        self._do("rename", self._strip_protocol(path1), self._strip_protocol(path2))

    def _open(self, path: str, mode: str = "rb", *others: Any, **more: Any) -> Any:
        if mode == "rb":
            return io.BufferedReader(_Reading(self._do("source", path), path), BLOCK)
        if mode not in ("wb", "ab"):
            raise ValueError(f"{path} cannot be opened in mode {mode!r}; expected rb, wb or ab")
        return io.BufferedWriter(_Writing(self._do("writer", path, mode == "ab"), path), BLOCK)


def register() -> None:
    """Lets fsspec, in this process, open the URLs of tfapp.storage by its stores."""
    for scheme in OPENED_SCHEMES:
        fsspec.register_implementation(scheme, _of(scheme), clobber=True)


def _of(scheme: str) -> type[StoreFileSystem]:
    @functools.cache
    def store() -> Any:
        return store_of(f"{scheme}://")

    class OfScheme(StoreFileSystem):
        def __init__(self, **more: Any):
            super().__init__(store(), **more)

    return OfScheme


class _Raw(io.RawIOBase):
    """A file; `does` makes the errors of its store OSErrors."""

    def __init__(self, path: str):
        self._path = path

    def does(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            raise OSError(base.told(error, self._path)[1]) from error


class _Reading(_Raw):
    def __init__(self, source: Source, path: str):
        super().__init__(path)
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._source.length)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._source.length - self._at))
        if count:
            buffer[:count] = self.does(self._source.read, self._at, count)
        self._at += count
        return count


class _Writing(_Raw):
    def __init__(self, writer: Writer, path: str):
        super().__init__(path)
        self._writer = writer

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._writer.tell()

    def write(self, content: Any) -> int:
        self.does(self._writer.append, bytes(content))
        return len(content)

    def close(self) -> None:
        if not self.closed:
            try:
                self.does(self._writer.close)
            finally:
                super().close()
