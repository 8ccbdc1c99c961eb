"""The record of an application, with a store that is slow, away, or holds nothing."""

from __future__ import annotations

import json
import threading

import pytest

from tests.coordinator.policy.test_later_runs import record
from tests.coordinator.world import World, job
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator import record as records
from tfapp.coordinator.record import Recorder, earlier
from tfapp.errors import UnavailableError

LIMIT = 20.0  # seconds


class Store:
    """An attempt whose store holds each write until `open`, and fails for the first `failures`
    calls."""

    def __init__(self, number: int = 2, failures: int = 0, found: bytes | None = None):
        self.number = number
        self.failures = failures
        self.found = found
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Event()
        self.written: list[ApplicationStatus] = []

    def read(self) -> bytes | None:
        self._answer()
        return self.found

    def write(self, content: bytes) -> None:
        self.begun.set()
        assert self.open.wait(LIMIT)
        self._answer()
        self.written.append(ApplicationStatus.from_dict(json.loads(content)))

    def end(self, state: str, diagnostics: str) -> None:
        raise AssertionError("nothing ends here")

    def _answer(self) -> None:
        if self.failures:
            self.failures -= 1
            raise UnavailableError("no NameNode")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(records, "PAUSES", (0.01, 0.02))


def statuses() -> list[ApplicationStatus]:
    """Those of an application as it begins, as its program runs, and at its verdict."""
    world = World(job("worker=1"))
    world.begin()
    found = [record(world.state)]
    world.happen("all", "answer")
    found.append(record(world.state))
    world.happen("worker/0", "exits", "3")
    world.advance(world.now + 100)
    return [*found, record(world.state)]


def test_the_newest_is_written_and_nobody_waits():
    store, said = Store(), []
    recorder = Recorder(store, said.append)
    first, *others, last = statuses()
    store.open.clear()
    recorder.keep(first)
    assert store.begun.wait(LIMIT)
    for status in (*others, last):
        recorder.keep(status)
    assert not recorder.finish(0.05)
    store.open.set()
    assert recorder.finish(LIMIT)
    assert store.written == [first, last]
    assert said == []


def test_what_has_no_news_is_not_written():
    store = Store()
    recorder = Recorder(store, print)
    status = statuses()[0]
    recorder.keep(status)
    assert recorder.finish(LIMIT)
    recorder.keep(ApplicationStatus(**{**vars(status), "updated": status.updated + 9}))
    assert recorder.finish(0)
    assert store.written == [status]


def test_a_store_that_is_away_is_told_of_once_and_tried_again():
    store, said = Store(failures=3), []
    recorder = Recorder(store, said.append)
    recorder.keep(statuses()[0])
    assert recorder.finish(LIMIT)
    assert len(store.written) == 1
    assert [line.partition(":")[0] for line in said] == [
        "the record of the application cannot be written",
        "the record of the application is written again",
    ]


def test_the_record_of_an_earlier_attempt():
    status = statuses()[-1]
    found = json.dumps(json.loads(records.encode(status))).encode()
    said: list[str] = []
    fresh = statuses()[0]
    assert earlier(2, Store(2, found=found).read, fresh, said.append) == status
    assert said == []
    assert earlier(2, Store(2, 2, found).read, fresh, said.append) == status
    assert len(said) == 2


def test_earlier_attempts_that_have_left_nothing_were_lost_all_the_same():
    fresh, said = statuses()[0], []
    found = earlier(3, Store(3).read, fresh, said.append)
    assert (found.generation, found.losses, found.timeline) == (2, 1, fresh.timeline)
    assert said == ["the earlier master was lost before it left a record"]


def test_a_record_that_cannot_be_read_for_long(monkeypatch):
    monkeypatch.setattr(records, "READ_LIMIT", 0.1)
    with pytest.raises(UnavailableError, match="no NameNode"):
        earlier(2, Store(failures=1000).read, statuses()[0], print)
