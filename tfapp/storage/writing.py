"""Writes files where nothing can be appended to a file that is there."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from tfapp import threads
from tfapp.storage import base

PART = 8 << 20  # bytes of a file that are kept in memory until they are sent
PIECE = 1 << 20  # bytes that are handed over at once
FLUSH_PAUSE = 10.0  # seconds between two uploads of the same file by flush


class Target(Protocol):
    """A file. `put` makes it of all its bytes, and replaces it; or `part` sends some after the
    others, and `finish` makes the file of them. It is never seen half."""

    def put(self, content: bytes) -> None: ...
    def part(self, content: bytes) -> None: ...
    def finish(self) -> None: ...


class KeptWriter:
    """A Writer. A small file is sent whole when it is closed, a large one in parts. A flush of a
    small one sends what there is: at once, or when FLUSH_PAUSE after the last one is over."""

    def __init__(self, target: Target):
        self._target = target
        self._kept: list[bytes] = []
        self._size = self._length = 0  # bytes that are kept, and all of them
        self._in_parts = False
        self._flushed = float("-inf")
        self._closed, self._putting = threading.Event(), threading.Lock()

    def append(self, content: bytes) -> None:
        self._kept.append(content)
        self._size += len(content)
        self._length += len(content)
        if self._size >= (PIECE if self._in_parts else PART):
            self._in_parts = True
            self._target.part(self._taken())

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pause = FLUSH_PAUSE - (time.monotonic() - self._flushed)
        if pause <= 0:
            self._put()
        elif self not in _waiting:
            _waiting.add(self)
            threads.start("tfapp-flush", self._put_later, pause)

    def _put_later(self, pause: float) -> None:
        if not self._closed.wait(pause):
            self._put()

    def _put(self) -> None:
        with self._putting:
            if not self._closed.is_set():
                try:
                    self._put_kept()
                finally:
                    _waiting.discard(self)

    def _put_kept(self) -> None:
        kept = b"".join(tuple(self._kept))
        if not self._in_parts:  # else these are not all bytes
            self._target.put(kept)
            self._flushed = time.monotonic()

    def flush_last(self) -> None:
        """At the end of Python, when nothing is written any more. No thread may be in Rust then."""
        with self._putting:
            self._closed.set()
            self._put_kept()

    def close(self) -> None:
        self._closed.set()
        _waiting.discard(self)
        with self._putting:
            if self._in_parts:
                self._target.part(self._taken())
                self._target.finish()
            else:
                self._target.put(self._taken())

    def _taken(self) -> bytes:
        """What is kept, no longer."""
        content = self._kept[0] if len(self._kept) == 1 else b"".join(self._kept)
        self._kept, self._size = [], 0
        return content


_waiting: set[KeptWriter] = set()  # whose flush does


def _flush_waiting() -> None:
    for writer in tuple(_waiting):
        try:
            writer.flush_last()
        except Exception as error:
            threads.say("tfapp-flush", error)


base.at_the_end.append(_flush_waiting)
