import functools
import itertools
import os
import signal
import threading
import time

import pytest

from tfapp.storage import reading
from tfapp.storage.base import BLOCK
from tfapp.storage.reading import AT_ONCE, DIRECT, LEAST, Memory, Reader

SIZE = 3 * BLOCK + 1000


class Source:
    def __init__(self, content):
        self.content, self.length, self.reads = content, len(content), []

    def read(self, offset, count):
        self.reads.append((offset, count))
        return self.content[offset : offset + count]


@functools.cache
def content_of(size):
    return b"".join(b"%08d" % number for number in range(size // 8 + 1))[:size]


def large(size):
    """Two of its parts are the same only if they are a multiple of 1 MiB and 8 bytes apart."""
    part = content_of((1 << 20) + 8)
    return (part * (size // len(part) + 1))[:size]


def read(reader, offset, count):
    target = bytearray(count)
    return bytes(target[: reader.read(offset, memoryview(target))])


def test_a_file_that_is_read_in_order_is_read_in_blocks():
    source = Source(content_of(SIZE))
    reader = Reader(lambda: source, Memory())
    found = b"".join(read(reader, offset, 5000) for offset in range(0, SIZE, 5000))
    assert found == source.content
    assert source.reads == [(n * BLOCK, min(BLOCK, SIZE - n * BLOCK)) for n in range(4)]


def test_a_read_elsewhere_brings_little():
    source = Source(content_of(SIZE))
    reader = Reader(lambda: source, Memory())
    assert read(reader, BLOCK + 8, 16) == source.content[BLOCK + 8 : BLOCK + 24]
    assert source.reads == [(BLOCK + 8, LEAST)]
    assert read(reader, SIZE - 8, 100) == source.content[-8:]
    assert read(reader, SIZE, 100) == read(reader, SIZE + 9, 100) == b""


def test_a_large_read_is_not_kept():
    source = Source(content_of(SIZE))
    memory = Memory()
    reader = Reader(lambda: source, memory)
    assert read(reader, 0, 3 * BLOCK) == source.content[: 3 * BLOCK]
    assert reader.held == 0


def test_all_readers_together_stay_within_the_memory():
    memory = Memory(limit=2 * BLOCK)
    sources = [Source(content_of(SIZE)) for _ in range(10)]
    readers = [Reader(lambda source=source: source, memory) for source in sources]
    for offset, reader in itertools.product(range(0, 100_000, 50_000), readers):
        read(reader, offset, 50_000)
        assert sum(one.held for one in readers) <= memory.limit
    for reader in readers:
        reader.close()
    assert memory.share() == BLOCK


def test_a_file_that_has_grown_is_opened_again(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    sources = iter([Source(b"abc"), Source(b"abcdef")])
    reader = Reader(lambda: next(sources), Memory())
    assert read(reader, 0, 10) == b"abc"
    assert read(reader, 3, 10) == b"def"


class Slow(Source):
    """Its reads end one after the other; those at `fails` fail."""

    def __init__(self, content, fails=()):
        super().__init__(content)
        self.fails, self.within, self.most, self.lock = fails, 0, 0, threading.Lock()

    def read_into(self, offset, target):
        with self.lock:
            self.within += 1
            self.most = max(self.most, self.within)
        time.sleep(0.05)
        with self.lock:
            self.within -= 1
        if offset in self.fails:
            raise TimeoutError(offset)
        target[:] = self.content[offset : offset + len(target)]


def test_a_large_read_has_several_requests_at_once():
    source = Slow(large(6 * DIRECT + 5))
    assert read(Reader(lambda: source, Memory()), 8, 7 * DIRECT) == source.content[8:]
    assert source.most == AT_ONCE


def test_a_large_read_fails_when_none_of_its_requests_can_write_any_more():
    source = Slow(large(12 * DIRECT), fails={DIRECT})
    with pytest.raises(TimeoutError):
        read(Reader(lambda: source, Memory()), 0, 12 * DIRECT)
    assert source.within == 0


def test_a_large_read_fails_the_same_where_not_all_requests_can_begin(monkeypatch):
    source = Slow(large(12 * DIRECT))
    threads, begun = reading.pool(), iter(range(2))

    class Few:
        def submit(self, *call):
            if next(begun, None) is None:
                raise RuntimeError("can't start new thread")
            return threads.submit(*call)

    monkeypatch.setattr(reading, "pool", Few)
    with pytest.raises(RuntimeError, match="can't start"):
        read(Reader(lambda: source, Memory()), 0, 12 * DIRECT)
    assert source.within == 0


def test_ctrl_c_waits_for_the_requests_that_run():
    source = Slow(large(12 * DIRECT))
    threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        read(Reader(lambda: source, Memory()), 0, 12 * DIRECT)
    assert source.within == 0
