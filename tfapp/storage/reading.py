"""Reads files ahead, in a bounded memory for the whole process."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import threading
import time
from collections.abc import Callable

from tfapp.storage.base import BLOCK, Source

MEMORY = 64 << 20  # bytes that are held for all files together
LEAST = 64 << 10  # bytes that are read at once where the file is not read in order
DIRECT = 16 << 20  # bytes of a large read that one request asks for
AT_ONCE = 4  # requests of large reads
GROWTH_PAUSE = 1.0  # seconds after which the end of a file is looked for again
NONE = memoryview(b"")


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
        """`reader` now holds `size` bytes. Others that do not read now may have to let go."""
        with self._lock:
            self._held.pop(reader, None)
            if size:
                self._held[reader] = size
            for other in [*self._held][:-1]:
                if sum(self._held.values()) <= self.limit:
                    break
                if other.let_go():
                    del self._held[other]


class Reader:
    """A file that is open for reading. A file that grows is seen to grow: what is read behind its
    end opens it again, once in GROWTH_PAUSE seconds."""

    def __init__(self, opened: Callable[[], Source], memory: Memory):
        self._opened, self._memory = opened, memory
        self._source, self._asked = opened(), time.monotonic()
        self._buffer, self._begin, self._size = NONE, 0, 0  # what it holds, where that is, how much
        self._next = 0  # where a read in order goes on
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes of memory."""
        return len(self._buffer)

    def read(self, offset: int, target: memoryview) -> int:
        """Fills `target` with what begins at `offset`. Returns how many bytes: fewer at the end of
        the file."""
        if offset >= self._source.length:
            with self._lock:
                if time.monotonic() - self._asked >= GROWTH_PAUSE:
                    self._source, self._asked = self._opened(), time.monotonic()
        count = max(0, min(len(target), self._source.length - offset))
        got = 0
        while got < count:
            got += self._piece(offset + got, target[got:count])
        return got

    def let_go(self) -> bool:
        """Gives its memory back, unless it reads now. Says whether it did."""
        if not self._lock.acquire(blocking=False):
            return False
        self._buffer, self._size = NONE, 0
        self._lock.release()
        return True

    def close(self) -> None:
        """Gives its memory back."""
        self._memory.hold(self, 0)
        self._buffer, self._size = NONE, 0

    def _piece(self, offset: int, target: memoryview) -> int:
        with self._lock:
            start = offset - self._begin
            if not 0 <= start < self._size and len(target) < BLOCK:
                self._fill(offset, len(target))
                start = 0
            if 0 <= start < self._size:
                length = min(len(target), self._size - start)
                target[:length] = self._buffer[start : start + length]
                return length
        self._next = offset + len(target)
        fill_at_once(self._source, offset, target)  # it will not be asked for twice
        return len(target)

    def _fill(self, offset: int, count: int) -> None:
        """What is at `offset`: much where the file is read in order."""
        most = max(count, self._memory.share() if offset == self._next else LEAST)
        size = min(most, self._source.length - offset)
        if not size <= len(self._buffer) <= most:
            self._buffer = memoryview(bytearray(size))
        self._size = 0
        fill(self._source, offset, self._buffer[:size])
        self._begin, self._size, self._next = offset, size, offset + size
        self._memory.hold(self, len(self._buffer))


@functools.cache
def pool() -> concurrent.futures.ThreadPoolExecutor:
    """The threads that read parts of large reads."""
    return concurrent.futures.ThreadPoolExecutor(AT_ONCE, "tfapp-read")


def fill_at_once(source: Source, offset: int, target: memoryview) -> None:
    """As `fill`, by several requests at once. It does not return before all have ended, whatever
    happens: then the memory is no longer ours."""
    if len(target) <= DIRECT:
        fill(source, offset, target)
        return
    begun: list[concurrent.futures.Future[None]] = []
    try:
        for at in range(0, len(target), DIRECT):
            part = target[at : at + DIRECT]
            begun.append(pool().submit(fill, source, offset + at, part))
        concurrent.futures.wait(begun, return_when=concurrent.futures.FIRST_EXCEPTION)
    finally:
        for one in begun:
            one.cancel()
        while not all(one.done() for one in begun):
            with contextlib.suppress(KeyboardInterrupt):
                concurrent.futures.wait(begun)
    for one in begun:
        if not one.cancelled():
            one.result()


def fill(source: Source, offset: int, target: memoryview) -> None:
    """Fills `target` with what begins at `offset`, without a copy where the store can do that."""
    if hasattr(source, "read_into"):
        source.read_into(offset, target)
        return
    for at in range(0, len(target), BLOCK):
        piece = target[at : at + BLOCK]
        piece[:] = source.read(offset + at, len(piece))
