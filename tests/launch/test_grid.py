"""A grid on an engine that plays many applications."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import signal

import pytest

from tests.cli.played_engine import STOPPED, SUCCESS, failure, shell, status
from tfapp.engines.base import Application
from tfapp.errors import (
    ExistsError,
    InUseError,
    InvalidPackageError,
    UnavailableError,
    UnknownApplicationError,
)
from tfapp.launch.grid import Grid
from tfapp.launch.points import Point
from tfapp.problems import Position, Problem

POINTS = tuple(Point({"rate": str(rate)}) for rate in range(4))
NAMES = [point.application("g") for point in POINTS]
STATES = {
    "RUNNING": status("RUNNING"),
    "SUCCEEDED": status("SUCCEEDED", verdict=SUCCESS),
    "FAILED": status("FAILED", verdict=failure("worker/0")),
    "KILLED": status("KILLED", verdict=STOPPED),
}


class Many:
    """Knows applications by name. `end` lets one end; those that nobody ends run."""

    stays = False
    name = "local"

    def __init__(self, **known: str):
        self.known = {NAMES[int(key[1:])]: state for key, state in known.items()}
        self.tags = ("g",)
        self.calls: list[str] = []
        self.most = 0  # that ran at the same time
        self._ends = {name: queue.SimpleQueue() for name in NAMES}

    def find(self, name, run=None) -> Application:
        if name not in self.known:
            raise UnknownApplicationError(f"there is no {name}")
        now = STATES[self.known[name]]
        return Application(name, "local", name, 1, now.verdict is None, now, self.tags)

    def list(self):
        return tuple(map(self.find, self.known))

    def submit(self, point: Point) -> Application:
        name = point.application("g")
        if name in self.known:
            raise ExistsError("taken")
        self.calls.append(f"submit {point}")
        self.known[name] = "RUNNING"
        running = [one for one, state in self.known.items() if state == "RUNNING"]
        self.most = max(self.most, len(running))
        return self.find(name)

    def destroy(self, name) -> None:
        if self.known[name] == "RUNNING":
            raise InUseError("it runs")
        self.calls.append(f"destroy {NAMES.index(name)}")
        del self.known[name]

    def stop(self, name, message, force=False, timeout=None) -> Application:
        self.calls.append(f"stop {NAMES.index(name)}")
        self.end(NAMES.index(name), "KILLED")
        return self.find(name)

    def end(self, number: int, state: str) -> None:
        self.known[NAMES[number]] = state
        self._ends[NAMES[number]].put(state)

    def follow(self, name, run=None, left=None):
        yield self.find(name)
        if self.known[name] == "RUNNING":
            self._ends[name].get(timeout=60)
            yield self.find(name)


@pytest.fixture
def run(tmp_path):
    """Runs the grid of POINTS. Gives the grid and what was said."""

    def call(engine: Many, at_once: int = 2, submit=None, check=lambda _: None, **more):
        caller = shell(tmp_path)
        grid = Grid("g", POINTS, engine, caller, submit or engine.submit, check)
        grid.run(at_once, **more)
        return grid, caller.err.text

    return call


def ending(engine: Many, *states: str):
    """Submits, and lets each end in its state."""

    def submit(point: Point) -> Application:
        found = engine.submit(point)
        number = POINTS.index(point)
        engine._ends[NAMES[number]].put(None)
        running, engine.known[found.name] = found, states[number]
        return running

    return submit


def states(grid: Grid) -> list[str]:
    return [grid.found[name].status.state for name in NAMES if name in grid.found]


def test_all_run_to_their_end_and_one_that_fails_stops_no_other(run):
    engine = Many()
    ends = ("SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED")
    grid, said = run(engine, submit=ending(engine, *ends))
    assert (states(grid), grid.error, grid.asked) == (list(ends), None, 0)
    assert f"{NAMES[1]}: Failed: worker/0: exit code 3\n" in said
    assert f"{NAMES[3]}: begins, 4 of 4 (rate=3)\n" in said


def test_only_so_many_run_at_a_time(run):
    engine = Many()
    begun: list[int] = []

    def submit(point):
        found = engine.submit(point)
        begun.append(POINTS.index(point))
        if len(begun) > 1:  # the one before ends only now that two run
            engine.end(begun[-2], "SUCCEEDED")
        if len(begun) == len(POINTS):
            engine.end(begun[-1], "SUCCEEDED")
        return found

    grid, _ = run(engine, 2, submit)
    assert (begun, engine.most, states(grid)) == ([0, 1, 2, 3], 2, ["SUCCEEDED"] * 4)


def test_what_has_succeeded_stays_what_runs_is_followed_and_others_begin_anew(run):
    engine = Many(p0="SUCCEEDED", p1="RUNNING", p2="FAILED", p3="KILLED")
    submit = ending(engine, *["SUCCEEDED"] * 4)

    def submit_and_end(point):
        if engine.known[NAMES[1]] == "RUNNING":
            engine.end(1, "SUCCEEDED")
        return submit(point)

    grid, said = run(engine, submit=submit_and_end)
    assert engine.calls == ["destroy 2", "submit rate=2", "destroy 3", "submit rate=3"]
    assert states(grid) == ["SUCCEEDED"] * 4
    assert f"{NAMES[0]}: SUCCEEDED before (rate=0)\n" in said


def test_fresh_ones_take_the_place_of_all(run):
    engine = Many(p0="SUCCEEDED", p1="RUNNING", p2="FAILED", p3="KILLED")
    grid, _ = run(engine, submit=ending(engine, *["SUCCEEDED"] * 4), fresh=True)
    assert [call for call in engine.calls if call.startswith("submit")] == [
        f"submit rate={number}" for number in range(4)
    ]
    assert "stop 1" in engine.calls


def test_what_has_failed_is_destroyed_only_for_a_valid_one(run):
    engine = Many(p0="FAILED", p1="SUCCEEDED", p2="SUCCEEDED", p3="SUCCEEDED")

    def check(point):
        raise InvalidPackageError((Problem(Position("train.py", 3, 1), "syntax", "no Python"),))

    grid, _ = run(engine, check=check)
    assert (engine.calls, type(grid.error)) == ([], InvalidPackageError)
    assert engine.known[NAMES[0]] == "FAILED", "its record and its logs are there"


def test_a_point_that_cannot_be_submitted_lets_the_others_be_the_last(run):
    engine = Many()

    def submit(point):
        if point == POINTS[1]:
            engine.end(0, "SUCCEEDED")
            raise UnavailableError("the queue is gone")
        return engine.submit(point)

    grid, _ = run(engine, submit=submit)
    assert (states(grid), str(grid.error)) == (["SUCCEEDED"], "the queue is gone")
    assert engine.calls == ["submit rate=0"]


def test_applications_of_others_are_not_touched(run):
    engine = Many(p0="FAILED")
    engine.tags = ("other",)
    grid, _ = run(engine)
    assert isinstance(grid.error, ExistsError)
    assert (engine.calls, grid.found) == ([], {})


def test_another_command_that_begins_the_same_points_is_joined(run):
    engine = Many(p0="FAILED")
    submit = ending(engine, *["SUCCEEDED"] * 4)

    def faster(point):
        if point == POINTS[0] and "submit rate=0" not in engine.calls:
            submit(point)  # by the other command
            raise ExistsError("taken")
        return submit(point)

    grid, _ = run(engine, submit=faster)
    assert engine.calls[:3] == ["destroy 0", "submit rate=0", "submit rate=1"]
    assert states(grid) == ["SUCCEEDED"] * 4


def test_what_is_no_point_any_more_is_named(run):
    engine = Many(**{f"p{number}": "SUCCEEDED" for number in range(4)})
    engine.list = lambda: (
        *map(engine.find, NAMES),
        dataclasses.replace(engine.find(NAMES[0]), name="g-old"),
        dataclasses.replace(engine.find(NAMES[0]), name="foreign", tags=("h",)),
    )
    _, said = run(engine)
    assert said.startswith("g-old: of g, and none of these points; `tfapp destroy")


def test_one_that_somebody_destroys_meanwhile_is_told(run):
    engine = Many(**{f"p{number}": "SUCCEEDED" for number in range(1, 4)})

    def submit(point):
        found = engine.submit(point)
        engine.follow = lambda name, *_: engine.find(f"{name} is gone")
        return found

    grid, said = run(engine, submit=submit)
    assert f"{NAMES[0]}: there is no {NAMES[0]} is gone\n" in said
    assert states(grid) == ["RUNNING", *["SUCCEEDED"] * 3]


def test_ctrl_c_stops_all_that_run_and_begins_no_more(run):
    engine = Many()

    def submit(point):
        found = engine.submit(point)
        if point == POINTS[1]:
            signal.raise_signal(signal.SIGINT)
        return found

    with contextlib.suppress(KeyboardInterrupt):
        grid, said = run(engine, submit=submit)
    assert (states(grid), grid.asked) == (["KILLED", "KILLED"], 1)
    assert sorted(engine.calls) == ["stop 0", "stop 1", "submit rate=0", "submit rate=1"]
    assert f"stopping {NAMES[0]} (Ctrl-C once more: at once)\n" in said
