"""Calls against a real gRPC server in a process of its own, which is stopped, cut and killed."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import skein

from tfapp import skein_calls
from tfapp.errors import RefusedError, UnavailableError, UnreachableError
from tfapp.skein_calls import Broken, Container, Deleted, Put

PATIENCE = 30  # seconds, for what happens at once unless it is broken


class Server:
    def __init__(self, folder: Path):
        self.security = skein.Security.new_credentials()
        certificate, key = folder / "cert", folder / "key"
        certificate.write_bytes(self.security.cert_bytes)
        key.write_bytes(self.security.key_bytes)
        script = Path(__file__).with_name("small_master.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(certificate), str(key)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def connect(self, deadline: float = PATIENCE) -> skein_calls.Connection:
        return skein_calls.connect(
            f"127.0.0.1:{self.port}",
            "application_1_0001",
            self.security.cert_bytes,
            self.security.key_bytes,
            deadline,
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.end()


@pytest.fixture
def connection(server):
    with server.connect() as connection:
        yield connection


def test_values_are_written_read_and_deleted(connection):
    connection.put("a.1", b"one")
    connection.put("a.2", b"two", owner="worker_3")
    connection.update({"a.3": b"three", "b": b"four"})
    connection.update({})
    assert connection.get("a.1") == b"one"
    assert connection.get("missing") is None
    assert connection.get_prefix("a.") == {"a.1": b"one", "a.2": b"two", "a.3": b"three"}
    connection.discard("a.1")
    assert connection.get("a.1") is None


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


def test_containers_are_added_listed_and_killed(connection):
    added = connection.add_container("worker", {"TFAPP_INSTANCE": "worker/0"})
    assert added == "worker_0"
    assert connection.containers() == (
        Container(
            id="worker_0",
            service="worker",
            state="RUNNING",
            host="127.0.0.1",
            message="worker/0",
            node="127.0.0.1:8042",
        ),
    )
    connection.kill_container(added)


def test_the_application_calls(connection):
    connection.set_progress(0.5)
    assert connection.add_page("tb", "http://h:1", "TensorBoard") == "http://127.0.0.1:1pages/tb/"
    connection.shutdown("FAILED", "because")
    assert b"because" in connection.get("shutdown")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.add_container("nobody", {"TFAPP_INSTANCE": "x/0"}), "Unknown service"),
        (lambda c: c.put("k", b"", owner="ended_0"), "already completed"),
    ],
)
def test_a_refusal_has_the_masters_words(connection, call, words):
    with pytest.raises(RefusedError, match=words):
        call(connection)


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


def test_a_master_that_dies_breaks_the_watch(server):
    with server.connect() as connection:
        watch = connection.watch(keys=["x"])
        server.end()
        assert isinstance(watch.get(PATIENCE), Broken)


def test_a_closed_connection_is_unreachable(server):
    connection = server.connect()
    connection.close()
    connection.close()
    with pytest.raises(UnreachableError, match="closed"):
        connection.get("x")


def test_outside_of_an_application_there_is_no_current_one():
    with pytest.raises(UnavailableError, match="not part of an application"):
        skein_calls.from_current()


def test_importing_it_imports_neither_skein_nor_grpc():
    code = (
        "import sys, tfapp.skein_calls; print([m for m in ('skein', 'grpc') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
