from __future__ import annotations

import pytest

from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.names import KEY_FEED, KEY_STOP
from tfapp.contract.status import FeedStatus
from tfapp.coordinator.policy import events
from tfapp.coordinator.store_view import StoreView
from tfapp.protocol.watch import Deleted, Put

ANSWER = Answer(1, "worker/0", "h", "worker_0", {"worker": {"host_port": "h:1"}}, {"p": 1}, 7)
BEAT = Beat(1, 2, "running")
REPORT = ExitReport(
    1, "worker/0", "worker_0", "h", Exit(3, None, "exit", "exit code 3"), False, "the end", 2.5
)
WRITTEN = {
    "tfapp.report.answer.worker/0": (ANSWER, events.Answered(9.0, ANSWER)),
    "tfapp.report.beat.worker/0": (BEAT, events.Beaten(9.0, "worker/0", BEAT)),
    "tfapp.report.exit.worker/0": (REPORT, events.Exited(9.0, REPORT)),
    "tfapp.report.waits.worker/0": (
        {"container": "worker_0", "text": "waiting for 1 GPU"},
        events.Waits(9.0, "worker/0", "worker_0", "waiting for 1 GPU"),
    ),
    KEY_FEED: (FeedStatus(rows=3), events.Fed(9.0, FeedStatus(rows=3))),
    KEY_STOP: ({"message": "enough"}, events.StopRequested(9.0, "enough")),
}


@pytest.mark.parametrize("key", WRITTEN)
def test_a_value_is_an_event_once(key):
    value, event = WRITTEN[key]
    view = StoreView()
    assert list(view.apply(Put(key, encode(value)), 9.0)) == [event]
    assert list(view.apply(Put(key, encode(value)), 10.0)) == []
    assert list(view.reconcile({key: encode(value)}, 10.0)) == []


def test_the_end_of_a_container_is_an_event_and_other_deletions_are_not():
    view = StoreView()
    alive = "tfapp.report.alive.worker/0"
    assert list(view.apply(Put(alive, b"worker_0"), 1.0)) == []
    assert list(view.apply(Deleted("tfapp.report.beat.worker/0"), 2.0)) == []
    assert list(view.apply(Deleted(alive), 3.0)) == [
        events.ContainerEnded(3.0, "worker/0", "worker_0")
    ]


def test_reading_again_tells_reports_first_and_ends_last():
    view = StoreView()
    list(view.apply(Put("tfapp.report.alive.worker/0", b"worker_0"), 1.0))
    list(view.apply(Put("tfapp.report.alive.worker/1", b"worker_1"), 1.0))
    now = {
        "tfapp.report.alive.worker/1": b"worker_1",
        "tfapp.report.beat.worker/1": encode(BEAT),
        "tfapp.report.exit.worker/0": encode(REPORT),
    }
    assert list(view.reconcile(now, 5.0)) == [
        events.Exited(5.0, REPORT),
        events.Beaten(5.0, "worker/1", BEAT),
        events.ContainerEnded(5.0, "worker/0", "worker_0"),
    ]


def test_a_key_of_nobody_is_no_event():
    assert list(StoreView().apply(Put("tfapp.report.unheard-of.x", b"1"), 1.0)) == []
