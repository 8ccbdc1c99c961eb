"""What a file system is for `plugin`, and the errors that it may raise.

Besides `Failed`, these have a meaning: FileNotFoundError, FileExistsError, IsADirectoryError,
NotADirectoryError, PermissionError, TimeoutError, ConnectionError. All else is UNKNOWN.
"""

from __future__ import annotations

import atexit
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tfapp import threads

NO_FOLDER, NO_FILE = "this is a file and no folder", "this is a folder and no file"
EXTRA = "Install the extra: pip install 'tfapp[storage]'"
BLOCK = 4 << 20  # bytes that are read at once, ahead of what is asked for

# TensorFlow's codes. Python knows them as tf.errors.NotFoundError, ...
CANCELLED, UNKNOWN, INVALID, LATE, NOT_FOUND, EXISTS, DENIED = 1, 2, 3, 4, 5, 6, 7
EXHAUSTED, PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED = 8, 9, 10, 11, 12
UNAVAILABLE, UNAUTHENTICATED = 14, 16

at_the_end: list[Callable[[], None]] = []  # for stores: see _end

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (FileNotFoundError, NOT_FOUND),
    (FileExistsError, EXISTS),
    (IsADirectoryError, PRECONDITION),
    (NotADirectoryError, PRECONDITION),
    (PermissionError, DENIED),
    (TimeoutError, LATE),
    (ConnectionError, UNAVAILABLE),
    (NotImplementedError, UNIMPLEMENTED),
    (ValueError, INVALID),
    (KeyboardInterrupt, CANCELLED),
)


@atexit.register
def _end() -> None:
    """At the end of Python, after `plugin` has closed its gate, which was registered later: nothing
    of TensorFlow is written any more."""
    for call in at_the_end:
        call()


class Failed(Exception):
    """An operation failed. `code`: TensorFlow's. `hint`: what to do."""

    def __init__(self, code: int, words: str, hint: str = ""):
        super().__init__(f"{words.rstrip('.')}. {hint}".rstrip() if hint else words)
        self.code, self.words, self.hint = code, words, hint


def told(error: BaseException, path: str) -> tuple[int, str]:
    """TensorFlow's code for an error, and a text with the path."""
    if isinstance(error, Failed):
        return error.code, f"{path}: {error}"
    if isinstance(error, ImportError):
        return UNIMPLEMENTED, f"{path}: {error}. {EXTRA}"
    code = next((code for kind, code in _CODES if isinstance(error, kind)), UNKNOWN)
    words = str(error) or type(error).__name__
    return code, f"{path}: {words if code != UNKNOWN else f'{type(error).__name__}: {words}'}"


class Status(NamedTuple):
    """Of a file or a folder. `length` in bytes, `modified` in nanoseconds since 1970."""

    length: int
    modified: int
    is_folder: bool


class Source(Protocol):
    """A file that is open for reading, with the length that it had when it was opened. `read` gives
    exactly `count` bytes, which are there. It may also have `read_into(offset, target)`, which
    fills the memoryview `target` with as many."""

    length: int

    def read(self, offset: int, count: int) -> bytes: ...


class Writer(Protocol):
    """A file that is open for writing. `flush` shows readers what is written, where that can be;
    `close` shows them all of it, and is called once."""

    def append(self, content: bytes) -> None: ...
    def tell(self) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Store(Protocol):
    """A file system. Paths are URLs. `rename` replaces a file at `new`; `remove_folder` removes an
    empty folder, `remove_tree` any."""

    def stat(self, path: str) -> Status: ...
    def is_folder(self, path: str) -> bool: ...
    def children(self, path: str) -> Sequence[str]: ...
    def source(self, path: str) -> Source: ...
    def writer(self, path: str, append: bool) -> Writer: ...
    def make_folder(self, path: str, parents: bool = False) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_folder(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def copy(self, old: str, new: str) -> None: ...


class Begun:
    """A call that runs in a thread of its own, so that it has a deadline. A late one goes on alone:
    its thread ends by itself. `ended` is set then."""

    result: Any = None
    error: BaseException | None = None

    def __init__(self, call: Callable[[], Any], ended: threading.Event | None = None):
        self._call, self._ended = call, ended or threading.Event()
        threads.start("tfapp-storage", self._run)

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        self._ended.set()

    def ends(self, limit: float) -> bool:
        """Waits for its end, for `limit` seconds: says whether it has ended. `result` and `error`
        are those of the call then."""
        return self._ended.wait(limit)


_UNFINISHED = re.compile(r"\..*\.[0-9a-f]{8}\.unfinished")


def unfinished(path: str) -> str:
    """A name beside `path` for what is written there and not whole yet."""
    folder, slash, last = path.rpartition("/")
    return f"{folder}{slash}.{last}.{secrets.token_hex(4)}.unfinished"


def finished(names: Iterator[str]) -> list[str]:
    """Those of a folder that are not `unfinished`, in their order."""
    return sorted(name for name in names if not _UNFINISHED.fullmatch(name))


def split(path: str) -> tuple[str, str, str]:
    """("s3", "bucket", "a/b") of "s3://bucket/a/b/"."""
    scheme, _, rest = path.partition("://")
    host, _, name = rest.partition("/")
    return scheme, host, "/".join(part for part in name.split("/") if part)


def file_of(store: Store, path: str) -> Status:
    """That of a file. IsADirectoryError for a folder."""
    found = store.stat(path)
    if found.is_folder:
        raise IsADirectoryError(NO_FILE)
    return found


def folder_of(store: Store, path: str) -> None:
    """NotADirectoryError for a file."""
    if not store.stat(path).is_folder:
        raise NotADirectoryError(NO_FOLDER)


def blocks(source: Source) -> Iterator[bytes]:
    """All bytes of a file."""
    for offset in range(0, source.length, BLOCK):
        yield source.read(offset, min(BLOCK, source.length - offset))


def copied(store: Store, old: str, new: str) -> None:
    """Copies a file through this machine, in blocks."""
    source = store.source(old)
    writer = store.writer(new, append=False)
    for block in blocks(source):
        writer.append(block)
    writer.close()
