"""Events: who gets which, in which order, and how streams end."""

import queue
import threading

import pytest
import skein
from skein import kv

from tests.engines.applications import DEADLINE, compiled, service, stock_client


def received(events, count):
    return [events.get(timeout=DEADLINE) for _ in range(count)]


def plain(events, count):
    """("PUT", key, value, owner) or ("DELETE", key)."""
    found = []
    for event in received(events, count):
        kind = str(event.event_type)
        found.append((kind, event.key, *event.result) if kind == "PUT" else (kind, event.key))
    return found


def all_so_far(client, events):
    """The messages that were queued for `events` so far, in the order of the changes."""
    end = events.subscribe(key="~end")
    client.kv["~end"] = b""
    found = []
    while (event := events.get(timeout=DEADLINE)).event_filter != end:
        kind = str(event.event_type)
        if event.key != "~end":
            found.append((kind, event.key))
    return found


def history(client):
    for key in "abcdef":
        client.kv[key] = key.encode()
    client.kv.discard_range(start="b", end="d")
    client.kv.discard_range(end="d")
    client.kv.discard_range(start="e")
    client.kv.discard("d")
    client.kv.discard("d")


@pytest.mark.parametrize(
    ("wanted", "puts", "deletes"),
    [
        ({}, "abcdef", "bcaefd"),
        ({"end": "d"}, "abc", "bca"),
        ({"start": "c"}, "cdef", "cefd"),
        ({"start": "b", "end": "e"}, "bcd", "bcd"),
        ({"key": "c"}, "c", "c"),
        ({"prefix": "f"}, "f", "f"),
        ({"start": "e", "end": "b"}, "", ""),
        ({"event_type": "put"}, "abcdef", ""),
        ({"event_type": "delete"}, "", "bcaefd"),
        ({"start": "b", "end": "e", "event_type": "put"}, "bcd", ""),
        ({"start": "b", "end": "e", "event_type": "delete"}, "", "bcd"),
    ],
)
def test_ranges_and_types(client, wanted, puts, deletes):
    with client.kv.events(**wanted) as events:
        history(client)
        found = all_so_far(client, events)
    assert found == [*(("PUT", key) for key in puts), *(("DELETE", key) for key in deletes)]


def test_events_say_what_happened(client, box):
    with client.kv.events(prefix="a") as events:
        (wanted,) = events.filters
        client.kv.put("a", b"1", owner=box)
        client.kv.put("a", owner=None)
        client.kv.discard("a")
        put, freed, deleted = received(events, 3)
    assert put == kv.Event("a", kv.ValueOwnerPair(b"1", box), kv.EventType.PUT, wanted)
    assert freed == kv.Event("a", kv.ValueOwnerPair(b"1", None), kv.EventType.PUT, wanted)
    assert deleted == kv.Event("a", None, kv.EventType.DELETE, wanted)


def test_each_filter_gets_its_copy(client):
    with client.kv.event_queue() as first, client.kv.event_queue() as second:
        before_b = first.subscribe(end="b")
        from_a = first.subscribe(start="a")
        assert second.subscribe(end="b") == before_b
        client.kv["a"] = b"1"
        client.kv["c"] = b"2"
        found = received(first, 3)
        assert {(e.key, e.event_filter) for e in found} == {
            ("a", before_b),
            ("a", from_a),
            ("c", from_a),
        }
        assert plain(second, 1) == [("PUT", "a", b"1", None)]


def test_subscribing_and_unsubscribing(client):
    with client.kv.event_queue() as events:
        wanted = events.subscribe(key="a")
        assert events.subscribe(key="a") == wanted
        client.kv["a"] = b"1"
        assert plain(events, 1) == [("PUT", "a", b"1", None)]
        events.unsubscribe(key="a")
        assert events.filters == set()
        with pytest.raises(ValueError):
            events.unsubscribe(key="a")
        client.kv["a"] = b"2"
        events.subscribe(key="a")
        client.kv["a"] = b"3"
        assert plain(events, 1) == [("PUT", "a", b"3", None)]


def test_events_of_owned_keys(client, boxes):
    first, second = boxes
    with client.kv.events(prefix="a") as events:
        client.kv.put("a1", b"1", owner=first)
        client.kv.put("a2", b"2", owner=first)
        client.kv.put("a3", b"3", owner=second)
        client.kv.put("a3", owner=first)
        client.kv.put("a2", owner=None)
        del client.kv["a1"]
        client.kv.put("a4", b"4", owner=first)
        client.kill_container(first)
        client.kv.clear()
        assert plain(events, 6) == [
            ("PUT", "a1", b"1", first),
            ("PUT", "a2", b"2", first),
            ("PUT", "a3", b"3", second),
            ("PUT", "a3", b"3", first),
            ("PUT", "a2", b"2", None),
            ("DELETE", "a1"),
        ]
        assert plain(events, 4) == [
            ("PUT", "a4", b"4", first),
            ("DELETE", "a3"),
            ("DELETE", "a4"),
            ("DELETE", "a2"),
        ]


@pytest.mark.parametrize("return_owner", [True, False])
def test_wait(client, return_owner):
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def wait():
        answers.put(client.kv.wait("a", return_owner=return_owner))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    client.kv["b"] = b"other"
    client.kv["a"] = b"1"
    expected = (b"1", None) if return_owner else b"1"
    assert answers.get(timeout=DEADLINE) == expected
    assert client.kv.wait("a", return_owner=return_owner) == expected
    waiting.join(DEADLINE)


def test_commit_order_across_clients(client, shared):
    """Two watchers see the puts of eight writers in the same order."""
    with client.kv.events(prefix="w") as first, client.kv.events(start="w") as second:

        def write(name):
            for number in range(20):
                client.kv[f"w{name}"] = str(number).encode()

        writers = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(DEADLINE)
        seen = plain(first, 160)
        assert plain(second, 160) == seen
    for name in range(8):
        mine = [int(value) for _, key, value, _ in seen if key == f"w{name}"]
        assert mine == list(range(20))


def test_many_streams_do_not_block_calls(shared):
    """Each open stream of a threaded server would hold one of its threads for ever."""
    clients = [
        skein.ApplicationClient(shared.address, shared.id, shared.security) for _ in range(40)
    ]
    try:
        queues = [client.kv.events(key="many") for client in clients]
        shared.kv["many"] = b"1"
        for events in queues:
            assert plain(events, 1) == [("PUT", "many", b"1", None)]
    finally:
        for client in clients:
            client.close()


def test_the_end_breaks_streams_after_their_last_event(engine):
    engine.create("app", compiled(box=service()))
    with stock_client(engine) as client:
        events = client.kv.events(prefix="a")
        for number in b"123":
            client.kv[f"a{number}"] = bytes([number])
        client.shutdown()
        assert [event.result.value for event in received(events, 3)] == [b"1", b"2", b"3"]
        for _ in range(2):
            with pytest.raises(skein.ConnectionError):
                events.get(timeout=DEADLINE)
