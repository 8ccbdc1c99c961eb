"""Calls to a master that is stopped, killed or left."""

from __future__ import annotations

import os
import queue
import signal
import threading

import pytest

from tests.skein_calls.server import PATIENCE
from tfapp.errors import UnreachableError
from tfapp.skein_calls.events import Put

CALLS = {
    "get": lambda c: c.get("x"),
    "get_prefix": lambda c: c.get_prefix("x"),
    "put": lambda c: c.put("x", b""),
    "update": lambda c: c.update({"x": b""}),
    "discard": lambda c: c.discard("x"),
    "watch": lambda c: c.watch(keys=["x"]),
    "containers": lambda c: c.containers(),
    "add_container": lambda c: c.add_container("worker", {}),
    "kill_container": lambda c: c.kill_container("worker_0"),
    "set_progress": lambda c: c.set_progress(1),
    "add_page": lambda c: c.add_page("r", "http://h:1", "t"),
    "shutdown": lambda c: c.shutdown("FAILED", ""),
}


def ends_unreachable(call, connection):
    """The call raises UnreachableError; without a deadline it would hang in its thread."""
    outcome: queue.SimpleQueue = queue.SimpleQueue()

    def run():
        try:
            outcome.put(call(connection))
        except BaseException as error:
            outcome.put(error)

    threading.Thread(target=run, daemon=True).start()
    assert isinstance(outcome.get(timeout=PATIENCE), UnreachableError)


def test_no_call_waits_longer_than_its_deadline_for_a_stopped_master(server):
    with server.connect(deadline=0.2) as used, server.connect(deadline=0.2) as fresh:
        server.connect().get("warm")
        used.get_prefix("x")
        watch = used.watch(keys=["x"])
        os.kill(server.process.pid, signal.SIGSTOP)
        for call in CALLS.values():
            ends_unreachable(call, used)
        ends_unreachable(CALLS["get"], fresh)
        os.kill(server.process.pid, signal.SIGCONT)
        with server.connect() as patient:
            patient.put("x", b"after")
        for event in iter(lambda: watch.get(PATIENCE), Put("x", b"after")):
            assert event == Put("x", b"")  # a call made during the pause may act late


@pytest.mark.parametrize("name", CALLS)
def test_a_dead_master_is_unreachable(server, name):
    with server.connect(deadline=0.2) as connection:
        server.end()
        ends_unreachable(CALLS[name], connection)


def test_a_closed_connection_is_unreachable(server):
    connection = server.connect()
    connection.close()
    connection.close()
    with pytest.raises(UnreachableError, match="closed"):
        connection.get("x")
