from __future__ import annotations

import pytest

from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.cli.following import Feed, has_ended, is_running, wait_until
from tfapp.errors import UnreachableError

FORMING, RUNNING = status("FORMING"), status("RUNNING")
ENDED = status("SUCCEEDED", verdict=SUCCESS)


def states(feed: Feed) -> list[str]:
    found = []
    with pytest.raises(EOFError):
        while True:
            application = feed.next(60)
            assert application is not None
            found.append(application.status.state)
    return found


def test_a_feed_gives_every_change_and_then_ends(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING, RUNNING, ENDED])
    assert states(Feed(engine, "app")) == ["FORMING", "RUNNING", "SUCCEEDED"]


def test_a_feed_hands_on_what_the_engine_raises(tmp_path, monkeypatch):
    engine = PlayedEngine(tmp_path, [FORMING])

    def follow(name, run=None):
        yield engine.find("app")
        raise UnreachableError("the master does not answer")

    monkeypatch.setattr(engine, "follow", follow)
    feed = Feed(engine, "app")
    assert feed.next(60) == engine.find("app")
    with pytest.raises(UnreachableError, match="does not answer"):
        feed.next(60)


def test_a_feed_gives_nothing_while_nothing_changes(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING])
    feed = Feed(engine, "app")
    assert feed.next(60) is not None
    assert feed.next(0) is None
    engine.stop("app", "end of the test")


@pytest.mark.parametrize(
    ("history", "reached", "state"),
    [
        ([FORMING, RUNNING, ENDED], is_running, "RUNNING"),
        ([FORMING, RUNNING, ENDED], has_ended, "SUCCEEDED"),
        ([FORMING, ENDED], is_running, "SUCCEEDED"),
    ],
)
def test_waiting_ends_with_what_it_waits_for_or_with_the_end(tmp_path, history, reached, state):
    found = wait_until(Feed(PlayedEngine(tmp_path, history), "app"), reached)
    assert found is not None
    assert found.status.state == state


def test_waiting_ends_when_the_time_is_over(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING])
    ticks = iter(range(100))
    feed = Feed(engine, "app")
    assert wait_until(feed, is_running, timeout=0.5, clock=lambda: float(next(ticks))) is None
    engine.stop("app", "end of the test")
