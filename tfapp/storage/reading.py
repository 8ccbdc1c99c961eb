"""Reads files ahead, in a bounded memory for the whole process."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterator

from tfapp.storage.base import BLOCK, Source

MEMORY = 64 << 20  # bytes that are held for all files together
LEAST = 64 << 10  # bytes that are read at once where the file is not read in order
GROWTH_PAUSE = 1.0  # seconds after which the end of a file is looked for again


class Memory:
    """What all readers hold. Those that have read last keep theirs."""

    def __init__(self, limit: int = MEMORY):
        self.limit = limit
        self._held: collections.OrderedDict[Reader, int] = collections.OrderedDict()
        self._lock = threading.Lock()

    def share(self) -> int:
        """The bytes that a reader may hold: less for each if many read."""
        return max(LEAST, min(BLOCK, self.limit // (len(self._held) + 1)))

    def hold(self, reader: Reader, size: int) -> None:
        """`reader` now holds `size` bytes. Others may have to let go of theirs."""
        with self._lock:
            self._held.pop(reader, None)
            if size:
                self._held[reader] = size
            while sum(self._held.values()) > self.limit:
                self._held.popitem(last=False)[0].window = (0, b"")


class Reader:
    """A file that is open for reading. A file that grows is seen to grow: what is read behind its
    end opens it again, once in GROWTH_PAUSE seconds."""

    def __init__(self, opened: Callable[[], Source], memory: Memory):
        self.window = (0, b"")  # where it begins, and what there is
        self._opened, self._memory = opened, memory
        self._source, self._asked = opened(), time.monotonic()
        self._next = 0  # where a read in order goes on
        self._lock = threading.Lock()

    def read(self, offset: int, count: int) -> Iterator[tuple[bytes, int, int]]:
        """The bytes from `offset`; fewer than `count` at the end of the file. They come in pieces:
        bytes, where to begin in them, and how many to take."""
        if offset >= self._source.length:
            with self._lock:
                if time.monotonic() - self._asked >= GROWTH_PAUSE:
                    self._source, self._asked = self._opened(), time.monotonic()
        end = min(offset + count, self._source.length)
        while offset < end:
            content, start, length = self._piece(offset, end - offset)
            yield content, start, length
            offset += length

    def close(self) -> None:
        """Gives its memory back."""
        self._memory.hold(self, 0)
        self.window = (0, b"")

    def _piece(self, offset: int, count: int) -> tuple[bytes, int, int]:
        begin, content = self.window
        if not begin <= offset < begin + len(content):
            if count >= BLOCK:  # it will not be asked for twice
                self._next = offset + BLOCK
                return self._source.read(offset, BLOCK), 0, BLOCK
            with self._lock:
                begin, content = self.window
                if not begin <= offset < begin + len(content):
                    begin, content = offset, self._filled(offset, count)
        start = offset - begin
        return content, start, min(count, len(content) - start)

    def _filled(self, offset: int, count: int) -> bytes:
        """A new window at `offset`. It is large where the file is read in order."""
        ahead = self._memory.share() if offset == self._next else LEAST
        size = min(max(count, ahead), self._source.length - offset)
        content = self._source.read(offset, size)
        self._next = offset + size
        self.window = (offset, content)
        self._memory.hold(self, len(content))
        return content
