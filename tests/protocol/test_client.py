"""Calls to a master that is stopped, killed or left, or that fails or refuses."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from tests.protocol.server import PATIENCE
from tfapp.errors import RefusedError, UnreachableError
from tfapp.protocol.client import LARGEST_REQUEST, Client
from tfapp.protocol.watch import Broken, Put
from tfapp.runner.heartbeat import Heartbeat

CALLS = {
    "get": lambda c: c.get("x"),
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


@pytest.mark.slow
def test_no_call_waits_longer_than_its_deadline_for_a_stopped_master(server):
    with server.connect(deadline=0.2) as used, server.connect(deadline=0.2) as fresh:
        server.connect().get("warm")
        used.get("x")
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


@pytest.fixture
def elsewhere(server, tmp_path):
    """The address of the next master."""
    script = Path(__file__).parent.parent / "small_master.py"
    words = [sys.executable, str(script), str(tmp_path / "cert"), str(tmp_path / "key")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as other:
        try:
            yield f"127.0.0.1:{int(other.stdout.readline())}"
        finally:
            other.kill()


def test_a_master_that_is_found_elsewhere(server, elsewhere):
    """Calls go there, also one that was on its way; watches break."""
    with server.connect() as connection:
        watch = connection.watch(keys=["x"])
        server.end()
        connection.when_lost(lambda: connection.move(elsewhere))
        connection.put("x", b"there")
        connection.when_lost(lambda: None)
        assert connection.get("x") == b"there"
        assert isinstance(watch.get(PATIENCE), Broken)


def test_a_master_that_hung_is_not_heard_once_another_one_has_its_place(server, elsewhere):
    with server.connect() as connection, server.connect() as believer:
        believer.get("warm")
        watch = connection.watch(keys=["x"])
        os.kill(server.process.pid, signal.SIGSTOP)
        connection.move(elsewhere)
        os.kill(server.process.pid, signal.SIGCONT)
        believer.put("x", b"stale")
        connection.put("x", b"new")
        assert isinstance(watch.get(PATIENCE), Broken)
        with connection.watch(keys=["x"]) as again:
            believer.put("x", b"stale again")
            connection.put("x", b"newest")
            assert again.get(PATIENCE) == Put("x", b"newest")
            assert watch.get(0) is None


def test_a_closed_connection_is_unreachable(server):
    connection = server.connect()
    connection.close()
    connection.close()
    with pytest.raises(UnreachableError, match="closed"):
        connection.get("x")


def test_a_connection_that_is_closed_meanwhile_goes_nowhere(server, elsewhere):
    """By another thread, while this one looks for the next master."""
    connection = server.connect()
    connection.close()
    connection.move(elsewhere)
    with pytest.raises(UnreachableError, match="closed"):
        connection.get("x")


REFUSALS = {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "ALREADY_EXISTS", "NOT_FOUND"}
STATUSES = {status.name for status in grpc.StatusCode} - {"OK"}
FOREVER = b"1000000"


@pytest.mark.parametrize("status", sorted(REFUSALS))
def test_what_a_master_answers_on_purpose_is_a_refusal(connection, status):
    connection.put("fail", status.encode() + b" 1")
    with pytest.raises(RefusedError, match="refused GetRange: Stream removed"):
        connection.get("x")


@pytest.mark.parametrize("status", sorted(STATUSES - REFUSALS - {"DEADLINE_EXCEEDED"}))
def test_any_other_failure_passes_or_is_unreachable(server, connection, status):
    connection.put("x", b"1")
    connection.put("fail", status.encode() + b" 2")
    assert connection.get("x") == b"1"
    connection.put("fail", status.encode() + b" 1")
    connection.watch(keys=["x"]).close()
    with server.connect(deadline=0.3) as hasty:
        hasty.put("fail", status.encode() + b" " + FOREVER)
        with pytest.raises(UnreachableError):
            hasty.get("x")


def test_a_failure_that_stays_is_named(server):
    with server.connect(deadline=2.0) as connection:
        connection.put("fail", b"UNKNOWN " + FOREVER)
        with pytest.raises(UnreachableError, match=r"UNKNOWN Stream removed \(GetRange\)"):
            connection.get("x")


@pytest.mark.parametrize(
    ("tries", "said"),
    [(["UNKNOWN", ""], "UNKNOWN"), (["once", "again", ""], "again"), ([""], "no answer in 2 s")],
)
def test_a_last_try_that_is_cut_short_hides_no_reason(server, tries, said):
    now, reasons = [0.0], iter(tries)

    def attempt(seconds):
        reason = next(reasons)
        now[0] += 0.5 if reason else seconds
        raise UnreachableError(reason or f"no answer in {seconds:g} s")

    pem = server.security.cert_bytes, server.security.key_bytes
    client = Client("127.0.0.1:1", *pem, 2.0, lambda: now[0], lambda _: None)
    with contextlib.closing(client), pytest.raises(UnreachableError, match=said):
        client.repeat(attempt)


def test_a_container_is_never_requested_twice(connection):
    connection.put("fail", b"UNKNOWN 1")
    with pytest.raises(UnreachableError):
        connection.add_container("worker", {"TFAPP_INSTANCE": "worker/0"})
    assert [container.id for container in connection.containers()] == ["worker_0"]


def test_what_no_master_takes_is_not_sent(connection):
    with pytest.raises(RefusedError, match="would send 41943.. bytes"):
        connection.put("x", bytes(LARGEST_REQUEST))
    connection.put("x", bytes(LARGEST_REQUEST - 100))
    connection.put("y", bytes(LARGEST_REQUEST - 100))
    assert [len(connection.get(key)) for key in "xy"] == [LARGEST_REQUEST - 100] * 2


def test_a_heartbeat_survives_failures_that_pass_and_the_fence_ends_those_that_stay(server):
    lost: queue.SimpleQueue = queue.SimpleQueue()
    beats: queue.SimpleQueue = queue.SimpleQueue()
    with server.connect(deadline=0.3) as connection:

        def beat(state: object) -> None:
            connection.put("beat", b"")
            beats.put(state)

        heartbeat = Heartbeat(beat, lost.put, interval=0.01, limit=PATIENCE)
        heartbeat.start("running")
        for status in ("UNKNOWN", "INTERNAL", "CANCELLED", "RESOURCE_EXHAUSTED"):
            connection.put("fail", status.encode() + b" 1")
            while not beats.empty():
                beats.get()
            beats.get(timeout=PATIENCE)
        heartbeat.close(PATIENCE)
        assert lost.empty()
        connection.put("fail", b"UNKNOWN " + FOREVER)
        Heartbeat(beat, lost.put, interval=0.01, limit=0.5).start("running")
        assert "has not answered for 0.5 s" in lost.get(timeout=PATIENCE)
