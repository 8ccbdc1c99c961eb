"""Beats and the fence, with real threads."""

from __future__ import annotations

import queue
import threading

import pytest

from tfapp.errors import RefusedError, UnreachableError
from tfapp.runner.heartbeat import Heartbeat

PATIENCE = 120  # seconds, for what happens at once unless it is broken
NEVER = 3600.0


class Master:
    """Takes beats, or fails as it is told to."""

    def __init__(self):
        self.beats: queue.SimpleQueue = queue.SimpleQueue()
        self.lost: queue.SimpleQueue = queue.SimpleQueue()
        self.error: Exception | None = None

    def beat(self, state: str) -> None:
        self.beats.put(state)
        if self.error is not None:
            raise self.error


@pytest.fixture
def master():
    return Master()


@pytest.fixture
def start(master):
    started = []

    def start(interval: float = NEVER, limit: float = 0.0, **more) -> Heartbeat:
        heartbeat = Heartbeat(master.beat, master.lost.put, interval, limit, **more)
        started.append(heartbeat)
        heartbeat.start("waiting")
        return heartbeat

    yield start
    for heartbeat in started:
        heartbeat.close(PATIENCE)


def test_it_beats_at_once_and_at_every_change(master, start):
    heartbeat = start()
    assert master.beats.get(timeout=PATIENCE) == "waiting"
    heartbeat.tell("running")
    assert master.beats.get(timeout=PATIENCE) == "running"


def test_it_beats_again_and_again(master, start):
    start(interval=0.01)
    assert [master.beats.get(timeout=PATIENCE) for _ in range(4)] == ["waiting"] * 4
    assert master.lost.empty()


def test_a_closed_heart_beats_no_more(master, start):
    heartbeat = start(interval=0.01)
    master.beats.get(timeout=PATIENCE)
    heartbeat.close(PATIENCE)
    while not master.beats.empty():
        master.beats.get()
    heartbeat.tell("running")
    heartbeat.close(PATIENCE)
    assert master.beats.empty() and master.lost.empty()


def test_silence_is_the_end(master, start):
    master.error = UnreachableError("no answer within 10 s")
    start(interval=0.01, limit=0.2)
    assert master.lost.get(timeout=PATIENCE) == (
        "the master has not answered for 0.2 s. no answer within 10 s"
    )
    assert master.lost.empty()


def test_a_call_that_hangs_does_not_delay_the_fence(master):
    hanging = threading.Event()
    heartbeat = Heartbeat(lambda state: hanging.wait() and None, master.lost.put, NEVER, 0.2)
    heartbeat.start("waiting")
    assert master.lost.get(timeout=PATIENCE) == "the master has not answered for 0.2 s."
    hanging.set()
    heartbeat.close(PATIENCE)


def test_silence_that_ends_in_time_is_forgotten(master, start):
    now = [0.0]
    master.error = UnreachableError("no answer")
    start(interval=0.01, limit=1000.0, clock=lambda: now[0])
    master.beats.get(timeout=PATIENCE)
    now[0] = 999.0
    master.error = None
    # Two more: the first may have been sent before the clock was put forward.
    for _ in range(3):
        master.beats.get(timeout=PATIENCE)
    now[0] = 1998.0
    master.beats.get(timeout=PATIENCE)
    assert master.lost.empty()


def test_without_a_limit_silence_lasts(master, start):
    master.error = UnreachableError("no answer")
    start(interval=0.01, limit=0.0)
    for _ in range(5):
        master.beats.get(timeout=PATIENCE)
    assert master.lost.empty()


def test_a_refusal_is_the_end_at_once(master, start):
    master.error = RefusedError("Container 'worker_1' has already completed")
    start(limit=NEVER)
    assert master.lost.get(timeout=PATIENCE) == (
        "the master no longer knows this container: Container 'worker_1' has already completed"
    )


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), UnicodeError("surrogates"), OSError(24, "files")],
    ids=repr,
)
def test_no_error_ends_the_heartbeats(master, start, error):
    master.error = error
    start(interval=0.01)
    for _ in range(3):
        assert master.beats.get(timeout=PATIENCE) == "waiting"
    assert master.lost.empty()


def test_an_error_that_lasts_is_told_as_the_reason(master, start):
    master.error = RuntimeError("can't start new thread")
    start(interval=0.01, limit=0.2)
    assert master.lost.get(timeout=PATIENCE) == (
        "the master has not answered for 0.2 s. can't start new thread"
    )
