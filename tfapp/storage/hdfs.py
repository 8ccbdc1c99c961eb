"""HDFS, through hdfs-native: a client in Rust, without Java.

Its calls run in an event loop of their own, so that each has a deadline: a call that is late is
cancelled. By itself it would try a wrong address for three minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tfapp import threads
from tfapp.storage import base
from tfapp.storage.base import Failed, Status

SCHEMES = ("hdfs", "viewfs")
LIMIT = 60.0  # seconds for one call
KEPT = 1 << 20  # bytes of a file that are kept in memory until they are sent

T = TypeVar("T")

_TICKET = "Is there a ticket (klist), or a file of tokens (HADOOP_TOKEN_FILE_LOCATION)?"
_ADDRESS = "Is the address right, and does the NameNode run? HADOOP_CONF_DIR names the settings"
# What a NameNode or the library says, the error that it is, and what to do.
_ANSWERS: tuple[tuple[str, type[Exception] | int, str], ...] = (
    (r"FileNotFoundException", FileNotFoundError, ""),
    (r"FileAlreadyExistsException", FileExistsError, ""),
    (r"PathIsNotEmptyDirectory|is non empty", base.PRECONDITION, ""),
    (r"ParentNotDirectory", NotADirectoryError, ""),
    (r"AccessControlException", base.DENIED, "Use a folder that is yours, or ask its owner"),
    (r"QuotaExceeded", base.EXHAUSTED, "Remove files, or ask for a larger quota"),
    (r"AlreadyBeingCreated|LeaseExpired|RecoveryInProgress", base.ABORTED,
     "Another program writes this file, or was killed while it did"),
    (r"InvalidToken|[Kk]erberos|GSS|(?i:sasl)|Authentication", base.UNAUTHENTICATED, _TICKET),
    (r"SafeMode|StandbyException", base.UNAVAILABLE, "The NameNode is not ready: try again later"),
    (r"os error|(?i:connect)|(?i:io error)|lookup|(?i:name ?node)|RpcError", base.UNAVAILABLE,
     _ADDRESS),
    (r"(?i:unsupported)", base.UNIMPLEMENTED, ""),
)  # fmt: skip


class Hdfs:
    """A Store. `limit`: seconds for one call."""

    def __init__(self, limit: float = LIMIT):
        self._limit = limit
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def done(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Waits for a call, as long as it may take."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threads.start("tfapp-hdfs", self._loop.run_forever)
        return asyncio.run_coroutine_threadsafe(_limited(call, self._limit), self._loop).result()

    def _at(self, path: str) -> tuple[Any, str]:
        """The client of the cluster, and the path there."""
        import hdfs_native

        scheme, host, name = base.split(path)
        cluster = f"{scheme}://{host}"
        with self._lock:
            if cluster not in self._clients:
                try:
                    self._clients[cluster] = hdfs_native.AsyncClient(cluster if host else None)
                except Exception as error:
                    raise answered(error) from error
            return self._clients[cluster], f"/{name}"

    def _call(self, method: str, path: str, *arguments: Any) -> Any:
        client, name = self._at(path)
        return self.done(lambda: getattr(client, method)(name, *arguments))

    def stat(self, path: str) -> Status:
        found = self._call("get_file_info", path)
        length = 0 if found.isdir else found.length
        return Status(length, found.modification_time * 1_000_000, found.isdir)

    def _file(self, path: str) -> Status:
        found = self.stat(path)
        if found.is_folder:
            raise IsADirectoryError(base.NO_FILE)
        return found

    def _folder(self, path: str) -> None:
        if not self.stat(path).is_folder:
            raise NotADirectoryError(base.NO_FOLDER)

    def children(self, path: str) -> Sequence[str]:
        self._folder(path)
        client, name = self._at(path)

        async def listed() -> list[str]:
            return [one.path.rpartition("/")[2] async for one in client.list_status(name, False)]

        return sorted(self.done(listed))

    def source(self, path: str) -> base.Source:
        self._file(path)
        return _Source(self, self._call("read", path))

    def writer(self, path: str, append: bool) -> base.Writer:
        client, name = self._at(path)
        try:
            found = self._file(path)
        except FileNotFoundError:
            append = False
        if not append:
            return _Writer(self, client, name)
        return _Writer(self, client, name, self._call("append", path), found.length)

    def make_folder(self, path: str, parents: bool = False) -> None:
        if not parents:
            with contextlib.suppress(FileNotFoundError):
                self.stat(path)
                raise FileExistsError("there is a folder or a file of this name")
        self._call("mkdirs", path, 0o755, parents)

    def remove(self, path: str) -> None:
        self._file(path)
        self._call("delete", path, False)

    def remove_folder(self, path: str) -> None:
        self._folder(path)
        self._call("delete", path, False)

    def remove_tree(self, path: str) -> None:
        self._folder(path)
        self._call("delete", path, True)

    def rename(self, old: str, new: str) -> None:
        client, name = self._at(new)
        if client is not self._at(old)[0]:
            words = "a file cannot be renamed to another cluster"
            raise Failed(base.UNIMPLEMENTED, words, "Copy it instead")
        self._call("rename", old, name, True)

    def copy(self, old: str, new: str) -> None:
        base.copied(self, old, new)


class _Source:
    def __init__(self, hdfs: Hdfs, reader: Any):
        self._hdfs, self._reader = hdfs, reader
        self.length: int = len(reader)

    def read(self, offset: int, count: int) -> bytes:
        content = self._hdfs.done(lambda: self._reader.read_range(offset, count))
        if len(content) != count:
            raise ConnectionError(f"the DataNode sent {len(content)} of {count} bytes")
        return bytes(content)


class _Writer:
    """A new file is written under another name in its folder, and renamed when it is closed. One
    that is flushed while it is small has its own name from then on, as event files must."""

    def __init__(self, hdfs: Hdfs, client: Any, name: str, opened: Any = None, length: int = 0):
        self._hdfs, self._client, self._name = hdfs, client, name
        self._file, self._length = opened, length
        self._hidden = ""  # its name until it is closed
        self._kept = bytearray()

    def append(self, content: bytes) -> None:
        self._kept += content
        self._length += len(content)
        if len(self._kept) >= KEPT:
            self._send(hidden=True)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        self._send(hidden=False)
        self._hdfs.done(self._file.hsync)

    def close(self) -> None:
        self._send(hidden=True)
        self._hdfs.done(self._file.close)
        if self._hidden:
            self._hdfs.done(lambda: self._client.rename(self._hidden, self._name, True))

    def _send(self, hidden: bool) -> None:
        from hdfs_native import WriteOptions

        if self._file is None:
            name = self._name
            if hidden:
                folder, _, last = name.rpartition("/")
                name = self._hidden = f"{folder}/.{last}.{secrets.token_hex(4)}.unfinished"
            options = WriteOptions(overwrite=True)
            self._file = self._hdfs.done(lambda: self._client.create(name, options))
        kept, self._kept = bytes(self._kept), bytearray()
        if kept:
            self._hdfs.done(lambda: self._file.write(kept))


async def _limited(call: Callable[[], Coroutine[Any, Any, T]], limit: float) -> T:
    try:
        return await asyncio.wait_for(call(), limit)
    except asyncio.TimeoutError:
        where = f"{_ADDRESS} ({os.environ.get('HADOOP_CONF_DIR', 'it is not set')})"
        raise Failed(base.LATE, f"no answer from HDFS within {limit:g} s", where) from None
    except (FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        raise answered(error) from error


def answered(error: Exception) -> Exception:
    """The error that an error of hdfs-native means."""
    words = " ".join(re.split(r"\n\s*at |\\n\\tat ", str(error))[0].split())[:600]
    for pattern, meaning, hint in _ANSWERS:
        if re.search(pattern, words):
            return Failed(meaning, words, hint) if isinstance(meaning, int) else meaning(words)
    return Failed(base.UNKNOWN, words)
