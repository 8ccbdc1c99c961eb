"""Any other protocol that fsspec has an implementation of, such as sftp: the schemes of
`site.global.storage.schemes`.

Its settings and credentials are those of fsspec: the URL, FSSPEC_SFTP_USERNAME, FSSPEC_SFTP, ...
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfapp.storage import base
from tfapp.storage.base import Begun, Failed, Status
from tfapp.storage.writing import KeptWriter

LIMIT = 90.0  # seconds for one call
KEPT = 30.0  # seconds for which a connection may have been idle: servers close them
MOST_IDLE = 8  # connections to a server that are kept

_MODIFIED = ("mtime", "modified", "last_modified", "LastModified", "modificationTime", "created")
_SERVER = "Does the server answer, and are its address and the credentials right?"


def credentials(scheme: str, environ: Mapping[str, str]) -> str:
    """Where they are, in words: names, never a value."""
    begin = f"FSSPEC_{scheme.upper()}"
    names = sorted(name for name in environ if name == begin or name.startswith(f"{begin}_"))
    return f"of fsspec: {', '.join(names) or f'no variable {begin}'}"


class Others:
    """A Store. `environ` has the variables of fsspec; `limit`: seconds for one call. An instance of
    fsspec does one thing at a time, as few of them may be used by several threads. One that failed,
    or is late, is not used again."""

    def __init__(self, environ: Mapping[str, str] = os.environ, limit: float = LIMIT):
        self._environ, self._limit = environ, limit
        self._idle: dict[str, list[tuple[float, Any]]] = {}
        self._lock, self._making = threading.Lock(), threading.Lock()

    def within(self, call: Callable[[], Any]) -> Any:
        """What a call returns. Nothing is tried again: it may have been done."""
        made = Begun(call)
        if not made.ends(self._limit):
            raise Failed(base.LATE, f"no answer within {self._limit:g} s", _SERVER)
        if made.error is not None:
            raise made.error
        return made.result

    def taken(self, place: str) -> Any:
        """An instance for `place`, as "sftp://host:22/", which nobody else uses."""
        with self._lock:
            idle = self._idle.pop(place, [])
            fresh = [one for one in idle if time.monotonic() - one[0] < KEPT]
            if fresh:
                self._idle[place] = fresh[:-1]
                return fresh[-1][1]
        from fsspec import get_filesystem_class
        from fsspec.config import set_conf_env

        scheme, settings = place.partition(":")[0], dict[str, Any]()
        set_conf_env(settings, self._environ)
        try:
            kind: Any = get_filesystem_class(scheme)
            given = {**settings.get(scheme, {}), **kind._get_kwargs_from_urls(place)}
            with self._making:  # servers refuse many logins at once
                return kind(skip_instance_cache=True, **given)
        except ImportError as error:
            hint = "Add it to site.global.python.packages, or install it where the program runs"
            raise Failed(base.UNIMPLEMENTED, str(error), hint) from error

    def give_back(self, place: str, system: Any) -> None:
        """Nothing is done with this instance any more, and nothing failed."""
        with self._lock:
            idle = self._idle.setdefault(place, [])
            if len(idle) < MOST_IDLE:
                idle.append((time.monotonic(), system))

    @contextlib.contextmanager
    def _using(self, path: str) -> Iterator[tuple[Any, str]]:
        """An instance, and the name that `path` has there."""
        place, name = _place(path)
        system = self.taken(place)
        with contextlib.suppress(FileNotFoundError):
            system.invalidate_cache()
            yield system, _named(system, place, name)
            self.give_back(place, system)
            return
        self.give_back(place, system)
        raise FileNotFoundError("there is no such file or folder")

    def _call(self, path: str, call: Callable[[Any, str], Any]) -> Any:
        def used() -> Any:
            with self._using(path) as (system, name):
                return call(system, name)

        return self.within(used)

    def stat(self, path: str) -> Status:
        found = self._call(path, lambda system, name: system.info(name))
        if found["type"] == "directory":
            return Status(0, _modified(found), True)
        return Status(found["size"] or 0, _modified(found), False)

    def is_folder(self, path: str) -> bool:
        return self.stat(path).is_folder

    def children(self, path: str) -> Sequence[str]:
        base.folder_of(self, path)

        def names(system: Any, folder: str) -> Iterator[str]:
            found = (one.rstrip("/") for one in system.ls(folder, detail=False))
            return (one.rpartition("/")[2] for one in found if one != folder.rstrip("/"))

        return base.finished(self._call(path, names))

    def source(self, path: str) -> base.Source:
        return _Source(self, path, base.file_of(self, path).length)

    def read(self, path: str, offset: int, count: int) -> bytes:
        """A part of a file."""
        content: bytes = self._call(path, lambda system, name: _part(system, name, offset, count))
        if len(content) != count:
            raise ConnectionError(f"the server sent {len(content)} of {count} bytes")
        return content

    def writer(self, path: str, append: bool) -> base.Writer:
        before = None
        with contextlib.suppress(FileNotFoundError):
            base.file_of(self, path)
            before = self.source(path) if append else None
        self.make_folder(path.rpartition("/")[0], parents=True)
        writer = KeptWriter(_File(self, path))
        for block in base.blocks(before) if before else ():
            writer.append(block)
        return writer

    def make_folder(self, path: str, parents: bool = False) -> None:
        with contextlib.suppress(FileNotFoundError):
            if not (self.stat(path).is_folder and parents):
                raise FileExistsError("there is a folder or a file of this name")
            return
        if not parents and "/" in _place(path)[1]:
            base.folder_of(self, path.rstrip("/").rpartition("/")[0])
        if parents:
            self._call(path, lambda system, name: system.makedirs(name, exist_ok=True))
        else:
            self._call(path, lambda system, name: system.mkdir(name, create_parents=False))

    def remove(self, path: str) -> None:
        base.file_of(self, path)
        self._call(path, lambda system, name: system.rm_file(name))

    def remove_folder(self, path: str) -> None:
        if self.children(path):
            raise Failed(base.PRECONDITION, "the folder is not empty")
        self._call(path, lambda system, name: system.rmdir(name))

    def remove_tree(self, path: str) -> None:
        base.folder_of(self, path)
        self._call(path, lambda system, name: system.rm(name, recursive=True))

    def rename(self, old: str, new: str) -> None:
        place, name = _place(new)
        if place != _place(old)[0]:
            words = "a file cannot be renamed to another server"
            raise Failed(base.UNIMPLEMENTED, words, "Copy it instead")
        is_folder = self.is_folder(old)

        def renamed(system: Any, name_there: str) -> None:
            move(system, name_there, _named(system, place, name), is_folder)

        self._call(old, renamed)

    def copy(self, old: str, new: str) -> None:
        base.copied(self, old, new)


class _Source:
    def __init__(self, store: Others, path: str, length: int):
        self._store, self._path, self.length = store, path, length

    def read(self, offset: int, count: int) -> bytes:
        return self._store.read(self._path, offset, count)


class _File:
    """A Target. It is written under another name in its folder, and renamed when it is whole. It
    has an instance of fsspec for itself while it is sent in parts."""

    def __init__(self, store: Others, path: str):
        self._store, (self._place, self._path) = store, _place(path)
        self._system: Any = None
        self._file: Any = None
        self._hidden, self._length = "", 0  # its URL until then, and what is written, in bytes

    def put(self, content: bytes) -> None:
        self.part(content)
        self.finish()

    def part(self, content: bytes) -> None:
        self._whole_or_removed(lambda: self._send(content))

    def finish(self) -> None:
        self._whole_or_removed(self._end)

    def _whole_or_removed(self, call: Callable[[], None]) -> None:
        try:
            self._store.within(call)
        except BaseException:
            if self._hidden:
                with contextlib.suppress(Exception):
                    self._store.remove(self._hidden)
            raise

    def _send(self, content: bytes) -> None:
        if self._file is None:
            self._system = self._store.taken(self._place)
            self._hidden = base.unfinished(f"{self._place}{self._path}")
            self._file = self._system.open(self._there(self._hidden), "wb")
            if hasattr(self._file, "set_pipelined"):  # of paramiko: else it waits after each 32 KiB
                self._file.set_pipelined(True)
        self._file.write(content)
        self._length += len(content)

    def _end(self) -> None:
        file, self._file = self._file, None
        length, self._length = self._length, 0
        file.close()
        self._system.invalidate_cache()
        hidden = self._there(self._hidden)
        there = self._system.info(hidden)["size"]
        if there != length:
            raise ConnectionError(f"the server has {there} of {length} bytes")
        move(self._system, hidden, _named(self._system, self._place, self._path), False)
        self._store.give_back(self._place, self._system)

    def _there(self, url: str) -> str:
        return _named(self._system, *_place(url))


def _place(path: str) -> tuple[str, str]:
    """("sftp://host:22/", "a/b") of "sftp://host:22/a/b"."""
    scheme, host, name = base.split(path)
    return f"{scheme}://{host}/", name


def _named(system: Any, place: str, name: str) -> str:
    """As `system` calls it. Not of the whole URL: fsspec would drop what follows `?` and `#`."""
    root: str = system._strip_protocol(place)
    return f"{root.rstrip('/')}/{name}"


def _part(system: Any, name: str, offset: int, count: int) -> bytes:
    if "sftp" not in system.protocol:
        return bytes(system.cat_file(name, start=offset, end=offset + count))
    with system.open(name, "rb") as file:  # paramiko asks for all of it at once, not for 32 KiB
        return b"".join(file.readv([(offset, count)]))


def move(system: Any, old: str, new: str, is_folder: bool) -> None:
    """Renames. Some implementations replace a file that is there, some fail, and some do nothing
    and say nothing: those get it out of the way first."""
    deep = is_folder and "recursive" in inspect.signature(system.mv).parameters
    try:
        system.mv(old, new, **({"recursive": True} if deep else {}))
    except (OSError, ValueError):
        if not system.exists(new):
            raise
    system.invalidate_cache()
    if system.exists(old):
        if is_folder:
            raise FileExistsError("there is a folder or a file of this name")
        system.rm_file(new)
        system.mv(old, new)


def _modified(found: dict[str, Any]) -> int:
    """When, in nanoseconds since 1970; 0 if the implementation does not say that."""
    value = next((found[key] for key in _MODIFIED if found.get(key)), 0)
    if isinstance(value, datetime.datetime):
        value = value.timestamp()
    if not isinstance(value, (int, float)):
        return 0
    return int(value * (1_000_000 if "modificationTime" in found else 1_000_000_000))
