import asyncio

import grpc
import pytest

from tests.engines.applications import DEADLINE
from tfapp.master.store import KeyRange, StoreEntry
from tfapp.master.watches import Watches, WatchStream
from tfapp.protocol.definition import messages

KEYS = "abcd"


@pytest.fixture
def seen():
    return []


@pytest.mark.parametrize(
    ("range_", "kind", "event", "wanted"),
    [
        (KeyRange(), "ALL", "PUT", "abcd"),
        (KeyRange("b"), "ALL", "DELETE", "bcd"),
        (KeyRange("", "c"), "ALL", "PUT", "ab"),
        (KeyRange("b", "d"), "PUT", "PUT", "bc"),
        (KeyRange("b", "d"), "PUT", "DELETE", ""),
        (KeyRange("b", "b\0"), "DELETE", "DELETE", "b"),
        (KeyRange("b", "b\0"), "DELETE", "PUT", ""),
        (KeyRange("d", "b"), "ALL", "PUT", ""),
    ],
)
def test_one_message_with_what_is_wanted(seen, range_, kind, event, wanted):
    watches = Watches()
    watch_id = watches.add(range_, kind, lambda *message: seen.append(message))
    watches.notify(event, tuple(map(StoreEntry, KEYS)))
    assert seen == ([(watch_id, event, list(map(StoreEntry, wanted)))] if wanted else [])


def test_removed_watches_are_silent(seen):
    watches = Watches()
    ranges = [KeyRange(), KeyRange(), KeyRange("a", "a\0"), KeyRange("a", "a\0")]
    ids = [watches.add(range_, "ALL", lambda *message: seen.append(message)) for range_ in ranges]
    assert ids == [0, 1, 2, 3]
    for watch_id in (0, 2, 2):
        watches.remove(watch_id)
    watches.notify("PUT", (StoreEntry("a"),))
    assert sorted(watch_id for watch_id, _, _ in seen) == [1, 3]
    watches.remove(1)
    watches.remove(3)
    watches.notify("PUT", (StoreEntry("a"),))
    assert len(seen) == 2


class Aborted(Exception):
    pass


class Context:
    """A client that reads only while `reads` is set."""

    def __init__(self):
        self.reads = asyncio.Event()
        self.reads.set()
        self.written = asyncio.Queue()

    async def write(self, message):
        await self.reads.wait()
        self.written.put_nowait(message)

    async def abort(self, code, details):
        raise Aborted(code, details)


async def requests(*messages_, then_end=False):
    for message in messages_:
        yield message
    if not then_end:
        await asyncio.Event().wait()


CREATE = messages.WatchRequest(create=messages.WatchCreateRequest())


async def within(awaitable):
    return await asyncio.wait_for(awaitable, DEADLINE)


def run(test):
    return asyncio.run(within(test()))


@pytest.mark.parametrize(("count", "size"), [(50, 0), (3, 90)])
def test_a_client_that_does_not_read_is_cut_off(count, size):
    async def test():
        watches, context = Watches(), Context()
        stream = WatchStream(watches, max_queued=100)  # bytes
        serving = asyncio.ensure_future(stream.serve(requests(CREATE), context))
        assert (await context.written.get()).type == messages.WatchResponse.CREATE
        context.reads.clear()
        for _ in range(count):
            watches.notify("PUT", (StoreEntry("a", b"x" * size),))
        context.reads.set()
        with pytest.raises(Aborted) as aborted:
            await serving
        assert aborted.value.args == (
            grpc.StatusCode.UNAVAILABLE,
            "the client does not read its events",
        )
        watches.notify("PUT", (StoreEntry("a"),))

    run(test)


def test_a_client_that_sends_no_more_still_gets_events():
    async def test():
        watches, context = Watches(), Context()
        stream = WatchStream(watches)
        serving = asyncio.ensure_future(stream.serve(requests(CREATE, then_end=True), context))
        await context.written.get()
        watches.notify("PUT", (StoreEntry("a", b"1"),))
        event = await context.written.get()
        assert [(e.key, e.value) for e in event.event] == [("a", b"1")]
        stream.end("over")
        with pytest.raises(Aborted):
            await serving

    run(test)


def test_requests_that_cannot_be_read_end_the_stream():
    async def broken():
        yield CREATE
        raise ValueError("nonsense")

    async def test():
        stream = WatchStream(Watches())
        with pytest.raises(Aborted, match="nonsense"):
            await stream.serve(broken(), Context())

    run(test)


def test_a_cancelled_watch_is_acknowledged_even_if_unknown():
    async def test():
        context = Context()
        cancel = messages.WatchRequest(cancel=messages.WatchCancelRequest(watch_id=77))
        stream = WatchStream(Watches())
        serving = asyncio.ensure_future(stream.serve(requests(cancel), context))
        answer = await context.written.get()
        assert (answer.type, answer.watch_id) == (messages.WatchResponse.CANCEL, 77)
        serving.cancel()

    run(test)
