import io
import re
import sys
import threading

import pytest

from tests.cli.played_engine import SUCCESS, PlayedEngine, instance, shell, status
from tests.waiting import wait
from tfapp.engines.base import Application
from tfapp.errors import UnreachableError
from tfapp.launch.caller import Caller
from tfapp.launch.display import PlainDisplay
from tfapp.launch.follow import States, Stopper, follow, has_ended, is_running, telling, wait_until
from tfapp.launch.submission import Request, submit
from tfapp.shipped import app_packages_dir

FORMING, RUNNING = status("FORMING"), status("RUNNING")
ENDED = status("SUCCEEDED", verdict=SUCCESS)
LIMIT = 60.0


def states(feed: States) -> list[str]:
    found = []
    with pytest.raises(EOFError):
        while True:
            application = feed.next(60)
            assert application is not None
            found.append(application.status.state)
    return found


def test_a_feed_gives_every_change_and_then_ends(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING, RUNNING, ENDED])
    assert states(States(engine, "app")) == ["FORMING", "RUNNING", "SUCCEEDED"]


def test_a_feed_hands_on_what_the_engine_raises(tmp_path, monkeypatch):
    engine = PlayedEngine(tmp_path, [FORMING])

    def follow(name, run=None, left=None):
        yield engine.find("app")
        raise UnreachableError("the master does not answer")

    monkeypatch.setattr(engine, "follow", follow)
    feed = States(engine, "app")
    assert feed.next(60) == engine.find("app")
    with pytest.raises(UnreachableError, match="does not answer"):
        feed.next(60)


def test_a_feed_gives_nothing_while_nothing_changes(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING])
    feed = States(engine, "app")
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
    found = wait_until(States(PlayedEngine(tmp_path, history), "app"), reached)
    assert found is not None
    assert found.status.state == state


def test_waiting_ends_when_the_time_is_over(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING])
    ticks = iter(range(100))
    feed = States(engine, "app")
    assert wait_until(feed, is_running, timeout=0.5, clock=lambda: float(next(ticks))) is None
    engine.stop("app", "end of the test")


def test_a_run_from_its_package_to_its_end_in_a_thread_with_streams_of_text(tmp_path):
    """As in a notebook: no signals, no files. Another thread stops it."""
    engine = PlayedEngine(tmp_path / "engine", [status("RUNNING", instance("worker/0", "RUNNING"))])
    engine.write_log("worker/0", "epoch 1\ntfapp: ready\n")
    out, err = io.StringIO(), io.StringIO()
    caller = Caller(out, err, {}, tmp_path, tmp_path / "home", "ada", sys.executable)
    stopper = Stopper(caller, engine, "app", "stopped by a test")
    ended: list[Application] = []

    def run():
        request = Request(name="app", appdef=app_packages_dir() / "tensorflow")
        display = PlainDisplay(caller, engine, submit(request, engine, caller))
        ended.append(follow(engine, display.application, display, stopper))
        display.close()

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and "epoch 1" not in out.getvalue():
        thread.join(0.02)
    stopper.ask()
    thread.join(60)
    assert [application.status.state for application in ended] == ["KILLED"]
    assert engine.stops == [("stopped by a test", False)]
    assert out.getvalue() == "epoch 1\n"
    notes = err.getvalue().splitlines()
    assert notes[0].startswith("checkpoints go to ")
    (deadline,) = (note for note in notes if " killed at " in note)
    notes.remove(deadline)
    assert sorted(notes[1:]) == sorted(
        ["app: RUNNING", "worker: 1 RUNNING", "tfapp: ready", "stopping app", "app: KILLED"]
    )


def test_a_second_ask_stops_without_grace(tmp_path):
    engine = PlayedEngine(tmp_path, [status("RUNNING")])
    stopper = Stopper(shell(tmp_path), engine, "app", "enough")
    stopper.act()
    assert engine.stops == []
    stopper.ask()
    stopper.ask()
    stopper.act()
    engine._stopped.wait(60)
    assert engine.stops == [("enough", True)]


def said_while_it_stops(tmp_path, *instances, wanted: str) -> str:
    """Until it has said what is `wanted`."""
    engine = PlayedEngine(tmp_path, [status("STOPPING", *instances)])
    caller = shell(tmp_path)
    with telling(engine, engine.find_first(), caller, every=0.01):
        wait(lambda: re.search(wanted, caller.err.text), lambda: caller.err.text, LIMIT, 0.01)
    return caller.err.text


def test_who_has_not_ended_is_named_with_the_time_that_is_left(tmp_path):
    instances = [instance(f"worker/{n}", "STOPPING") for n in range(6)]
    ended = instance("worker/6", "SUCCEEDED")
    said = said_while_it_stops(tmp_path, ended, *instances, wanted="waits for .*\\n")
    first, second, *_ = said.splitlines()
    assert first == "app: its programs are asked to end, and have 30 s"
    named = "worker/0, worker/1, worker/2, worker/3 and 2 more"
    assert re.fullmatch(
        rf"app waits for {named}, killed at \d\d:\d\d:\d\d \(TensorFlow may ignore SIGTERM: "
        r"see site.global.stop.signal; "
        r"--force does not wait\)",
        second,
    )
