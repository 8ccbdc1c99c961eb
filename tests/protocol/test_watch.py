"""Streams from a master that ends them, or dies."""

import queue
import threading
from types import SimpleNamespace

import pytest

from tests.protocol.server import PATIENCE
from tfapp.errors import UnreachableError
from tfapp.protocol.watch import Broken, Deleted, Put, Watch, key_range


def test_a_watch_delivers_in_order_what_comes_after_it(connection):
    connection.put("a.0", b"before")
    with connection.watch(keys=["key"], prefixes=["a."]) as watch:
        assert watch.read() == {"a.0": b"before"}
        connection.put("a.1", b"one", owner="worker_3")
        connection.put("other", b"")
        connection.put("key", b"two")
        connection.discard("a.1")
        seen = [watch.get(PATIENCE) for _ in range(3)]
        assert seen == [Put("a.1", b"one", "worker_3"), Put("key", b"two"), Deleted("a.1")]
        assert watch.get(0) is None


def test_watches_can_share_a_queue_with_other_sources(connection):
    shared: queue.SimpleQueue = queue.SimpleQueue()
    shared.put("mine")
    with connection.watch(keys=["x"], into=shared), connection.watch(keys=["y"], into=shared):
        connection.put("x", b"1")
        connection.put("y", b"2")
        seen = [shared.get(timeout=PATIENCE) for _ in range(3)]
    assert seen[0] == "mine"
    assert sorted(seen[1:], key=str) == [Put("x", b"1"), Put("y", b"2")]


def test_a_stream_that_ends_says_so_and_can_be_opened_again(connection):
    with connection.watch(keys=["x"]) as watch:
        connection.put("end-streams", b"")
        assert watch.get(PATIENCE) == Broken("the master ends")
    with connection.watch(keys=["x"]) as watch:
        connection.put("x", b"1")
        assert watch.get(PATIENCE) == Put("x", b"1")


def test_a_closed_watch_delivers_nothing_more(connection):
    watch = connection.watch(keys=["x"])
    watch.close()
    watch.close()
    connection.put("x", b"1")
    assert watch.get(0) is None


def test_a_master_that_dies_breaks_the_watch(server):
    with server.connect() as connection:
        watch = connection.watch(keys=["x"])
        server.end()
        assert isinstance(watch.get(PATIENCE), Broken)


class Client:
    """A master's, whose stream does what `stream` does."""

    def __init__(self, stream):
        self._stream = stream

    def stream(self, method, requests):
        return self._stream()

    def unreachable(self, method, because):
        return UnreachableError(f"{method}: {because}")


def opened(stream):
    return Watch(Client(stream), [key_range("x")], None, lambda watch: None, PATIENCE)


def test_any_error_in_a_stream_breaks_it():
    """Else its reader would wait for ever."""
    taken = threading.Event()

    class Stream:
        cancel = staticmethod(lambda: None)

        def __iter__(self):
            yield SimpleNamespace(type=0, Type=SimpleNamespace(Name=lambda type: "CREATE"))
            taken.wait(PATIENCE)
            yield "what is no message"

    watch = opened(Stream)
    taken.set()
    broken = watch.get(PATIENCE)
    assert isinstance(broken, Broken)
    assert "'str' object has no attribute" in broken.message


def test_a_stream_without_a_thread_is_as_good_as_none():
    def refuse():
        raise RuntimeError("can't start new thread")

    with pytest.raises(UnreachableError, match="can't start new thread"):
        opened(refuse)
