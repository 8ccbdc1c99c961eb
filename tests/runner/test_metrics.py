"""A runner's reading of a program's metrics."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.runner.driving import PATIENCE, eventually
from tests.runner.event_writer import event, record, simple
from tfapp import threads
from tfapp.contract.metrics import MAX_JSON, MAX_NAME, MAX_NAMES, cut, floats, measure
from tfapp.runner import open_event_files
from tfapp.runner.metrics import NOTHING, Meter, Reading, ReportFile, Speed
from tfapp.runner.open_event_files import OpenEventFiles

NOBODY = tuple


def write(path: Path, **data: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(data))
    os.replace(new, path)


def measured(reading: Reading) -> Reading:
    """Without the points of courses, and what the program uses."""
    return dataclasses.replace(reading, points={}, usage=None)


# ---- what a program reports -------------------------------------------------------------------


def test_the_file_that_a_program_reports_to_is_read(tmp_path):
    path = tmp_path / "metrics.json"
    meter = Meter(path, NOBODY, calendar=lambda: 100.0)
    assert measured(meter.look(PATIENCE)) == NOTHING
    write(path, step=10, time=90.0, metrics={"loss": 0.5, "accuracy": "nan"})
    assert measured(meter.look(PATIENCE)) == Reading({"loss": 0.5, "accuracy": "nan"}, 10, None)
    write(path, step=30, total=50, time=100.0, metrics={"loss": 0.25})
    last = Reading({"loss": 0.25}, 30, 2.0, total=50)
    assert measured(meter.look(PATIENCE)) == last
    path.unlink()
    assert measured(meter.last(PATIENCE)) == last


def test_the_points_are_those_that_the_program_tells(tmp_path):
    path = tmp_path / "metrics.json"
    meter = Meter(path, NOBODY)
    told = {"loss": [[90.0, 9, 0.5], [91.0, None, "nan"]], "gone": [[1.0, 1, 1.0]]}
    write(path, step=10, time=92.0, metrics={"loss": 0.25, "own": 1.0}, points=told)
    meter.look(PATIENCE)
    write(path, step=11, time=93.0, metrics={"loss": 0.25, "own": 2.0}, points=told)
    assert meter.look(PATIENCE).points == {
        "loss": ((90.0, 9, 0.5), (91.0, None, "nan")),
        "own": ((92.0, 10, 1.0), (93.0, 11, 2.0)),  # as looked at
    }


@pytest.mark.parametrize(
    "points", [None, [], {"a": 1}, {"a": [1, [1], [1, 2, None], ["x", 1, 1], [[], {}, ()]]}]
)
def test_whatever_stands_for_points_does_no_harm(tmp_path, points):
    path = tmp_path / "metrics.json"
    meter = Meter(path, NOBODY)
    write(path, step=1, time=2.0, metrics={"a": 1.0}, points=points)
    assert meter.look(PATIENCE).points == {"a": ((2.0, 1, 1.0),)}


def test_what_an_older_program_reported_is_forgotten(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write(path, step=10, time=90.0, metrics={"loss": 0.5})
    assert Meter(path, NOBODY).look(PATIENCE) == NOTHING
    assert not path.exists()
    write(path, step=10, time=90.0, metrics={"loss": 0.5})

    def kept(self, missing_ok=False):
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", kept)
    meter = Meter(path, NOBODY)
    assert measured(meter.look(PATIENCE)) == NOTHING
    write(path, step=11, time=90.0, metrics={})
    assert meter.look(PATIENCE).step == 11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ({}, None)),
        ("[1]", ({}, None)),
        ('{"step": 1, "metrics": {"a": 1', ({}, None)),
        ('{"metrics": {"a": 1, "b": NaN, "c": 1e999}}', ({"a": 1.0, "b": "nan", "c": "inf"}, None)),
        ('{"metrics": {"a": "x", "b": null, "c": true, "d": [1]}, "step": 2.5}', ({}, None)),
        ('{"metrics": [], "step": 3, "time": "noon"}', ({}, 3)),
        ('{"step": 99999999999999999999}', ({}, None)),
        ('{"metrics": {"a": 1%s}}' % ("0" * 400), ({"a": "inf"}, None)),
    ],
)
def test_whatever_stands_in_the_file_does_no_harm(tmp_path, text, expected):
    file = ReportFile(tmp_path / "file")
    (tmp_path / "file").write_text(text)
    found = file.read()
    assert (found.metrics, found.step) == expected


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself"])
def test_no_file_at_all_holds_up_nobody(tmp_path, kind):
    path = tmp_path / "file"
    file = ReportFile(path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    descriptors = os.listdir("/proc/self/fd")
    assert file.read().metrics == {}
    assert os.listdir("/proc/self/fd") == descriptors


def test_a_program_may_end_while_a_look_at_it_begins(tmp_path, monkeypatch):
    beginning, begin = threading.Event(), threading.Event()

    class SlowThread(threading.Thread):
        """Between its making and its start, much time passes."""

        def start(self) -> None:
            beginning.set()
            assert begin.wait(PATIENCE)
            super().start()

    meter = Meter(tmp_path / "metrics.json", lambda: ())
    write(tmp_path / "metrics.json", step=3)
    found: list[Reading] = []
    heartbeat = threading.Thread(target=lambda: found.append(meter.look(PATIENCE)))
    end = threading.Thread(target=lambda: found.append(meter.last(PATIENCE)))
    monkeypatch.setattr(threads, "start", functools.partial(threads.start, kind=SlowThread))
    heartbeat.start()
    assert beginning.wait(PATIENCE)
    end.start()
    begin.set()
    for thread in (heartbeat, end):
        thread.join(PATIENCE)
    assert [reading.step for reading in found] == [3, 3]


def test_a_look_that_takes_long_is_not_waited_for(tmp_path):
    go_on, asked = threading.Event(), []

    def pids():
        asked.append(threading.current_thread().name)
        go_on.wait(PATIENCE)
        return ()

    path = tmp_path / "metrics.json"
    meter = Meter(path, pids)
    write(path, step=1, time=1.0, metrics={})
    assert [meter.look(0.0), meter.look(0.0)] == [NOTHING, NOTHING]
    assert meter.last(0.0) == NOTHING
    eventually(lambda: asked, "it looks")
    assert asked == ["tfapp-metrics"]
    go_on.set()
    assert eventually(lambda: meter.reading.step, "the look is over") == 1


# ---- what a program writes for TensorBoard ----------------------------------------------------

PROGRAM = """
import os, sys
for line in sys.stdin:
    word, *rest = line.split()
    if word == "open":
        name, path = rest
        os.makedirs(os.path.dirname(path), exist_ok=True)
        globals()[name] = open(path, "ab", buffering=0)
    elif word == "read":
        globals()["reader"] = open(rest[0], "rb")
    elif word == "write":
        globals()[rest[0]].write(bytes.fromhex(rest[1]))
    elif word == "close":
        globals()[rest[0]].close()
    print("done", flush=True)
"""


class Writing:
    """A program that writes event files as it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def pids(self) -> list[int]:
        return [self.process.pid]

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def write(self, name: str, step: int, time: float, **values: float) -> None:
        message = event(step, time, *(simple(tag, value) for tag, value in values.items()))
        self.tell("write", name, record(message).hex())

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(PATIENCE)


@pytest.fixture
def program():
    writing = Writing()
    yield writing
    writing.end()


def test_what_a_program_writes_for_tensorboard_is_read(program, tmp_path):
    meter = Meter(tmp_path / "none", program.pids, calendar=lambda: 1015.0)
    assert measured(meter.look(PATIENCE)) == NOTHING
    program.tell("open", "a", tmp_path / "logs" / "train" / "events.out.tfevents.1.host.v2")
    program.tell("open", "b", tmp_path / "logs" / "validation" / "events.out.tfevents.2.host.v2")
    program.write("a", 0, 1000.0, epoch_loss=0.5)
    assert measured(meter.look(PATIENCE)) == Reading({"train/epoch_loss": 0.5}, None, None, 1)
    program.write("a", 1, 1010.0, epoch_loss=0.25, epoch_accuracy=0.75)
    program.write("b", 1, 1011.0, epoch_loss=0.375)
    found = meter.look(PATIENCE)
    assert list(found.metrics.items()) == [
        ("validation/epoch_loss", 0.375),
        ("train/epoch_accuracy", 0.75),
        ("train/epoch_loss", 0.25),
    ]
    assert (found.step, found.epoch, found.steps_per_second) == (None, 2, None)
    assert found.points["train/epoch_loss"] == ((1000.0, 0, 0.5), (1010.0, 1, 0.25))
    program.write("b", 400, 1012.0, steps=1.0)
    program.write("b", 500, 1014.0, steps=2.0)
    assert meter.look(PATIENCE).step == 500
    program.write("b", 600, 1016.0, steps=2.0)
    found = meter.look(PATIENCE)
    assert (found.step, found.steps_per_second) == (600, 50.0)


def test_what_a_program_reports_counts_more_than_what_it_writes_for_tensorboard(program, tmp_path):
    path = tmp_path / "metrics.json"
    meter = Meter(path, program.pids)
    program.tell("open", "a", tmp_path / "train" / "events.out.tfevents.1")
    program.write("a", 9, 1000.0, loss=0.5, accuracy=0.5)
    write(path, step=4, time=1000.0, metrics={"train/loss": 0.125, "own": 1.0})
    assert measured(meter.look(PATIENCE)) == Reading(
        {"train/loss": 0.125, "own": 1.0, "train/accuracy": 0.5}, 4, None
    )


def test_what_keras_writes_of_what_was_reported_is_not_said_twice(program, tmp_path):
    path = tmp_path / "metrics.json"
    meter = Meter(path, program.pids)
    for name in ("train", "validation"):
        program.tell("open", name, tmp_path / name / "events.out.tfevents.1")
        program.write(name, 9, 1000.0, epoch_loss=0.5, epoch_rate=0.25)
    write(path, step=4, time=1000.0, metrics={"loss": 0.5, "val_loss": 0.5, "val_rate": 0.25})
    assert meter.look(PATIENCE).metrics == {
        "loss": 0.5,
        "val_loss": 0.5,
        "val_rate": 0.25,
        "train/epoch_rate": 0.25,
    }


def test_the_last_values_are_read_after_the_program_s_end(program, tmp_path):
    meter = Meter(tmp_path / "none", program.pids)
    path = tmp_path / "train" / "events.out.tfevents.1"
    program.tell("open", "a", path)
    meter.look(PATIENCE)
    program.write("a", 3, 1000.0, loss=0.5)
    path.unlink()
    program.end()
    assert measured(meter.last(PATIENCE)) == Reading({"train/loss": 0.5}, 3, None)
    assert not [link for link in _open_files() if link.startswith(str(tmp_path))]


def test_what_a_program_wrote_that_ended_before_any_look_is_found_in_its_folder(tmp_path):
    """But not what an older program wrote there, nor what is elsewhere."""
    private, other = tmp_path / "work", tmp_path / "other"
    data = {
        private / "old" / "events.out.tfevents.1": ("a", 100.0),
        private / "train" / "events.out.tfevents.2": ("b", 200.0),
        other / "events.out.tfevents.3": ("c", 200.0),
    }
    for path, (tag, changed) in data.items():
        path.parent.mkdir(parents=True)
        path.write_bytes(record(event(1, changed, simple(tag, 0.5))))
        os.utime(path, (changed, changed))
    (private / "link").symlink_to(other)
    meter = Meter(tmp_path / "none", NOBODY, private, calendar=lambda: 150.0)
    assert measured(meter.look(PATIENCE)) == NOTHING
    assert measured(meter.last(PATIENCE)) == Reading({"train/b": 0.5}, 1, None)


def test_a_file_that_was_closed_is_read_to_its_end_and_let_go(program, tmp_path):
    files = OpenEventFiles(program.pids)
    for number in range(40):  # more than are read at a time
        program.tell("open", "a", tmp_path / "train" / f"events.out.tfevents.{number}")
        files.look()
        program.write("a", number, 1000.0 + number, loss=float(number))
        program.tell("close", "a")
        while files.look():
            pass
        assert files.newest() == [("train/loss", float(number))]
    assert not [link for link in _open_files() if link.startswith(str(tmp_path))]
    files.close()


def test_a_tensorboard_among_its_processes_writes_none(program, tmp_path):
    path = tmp_path / "train" / "events.out.tfevents.1"
    path.parent.mkdir()
    path.write_bytes(record(event(1, 1.0, simple("loss", 0.5))))
    program.tell("read", path)
    files = OpenEventFiles(program.pids)
    assert (files.look(), files.newest()) == (False, [])


def test_what_is_read_of_very_many_tags_is_bounded(program, tmp_path):
    files = OpenEventFiles(program.pids)
    program.tell("open", "a", tmp_path / "t" / "events.out.tfevents.1")
    for step in range(1, 4):
        program.write("a", step, float(step), **{f"{step}-{n}": 1.0 for n in range(200)})
    program.write("a", 9, 9.0, **{"n" * MAX_NAME: 1.0})
    files.look()
    assert len(files.newest()) == open_event_files._MOST_TAGS
    assert files.newest()[0][0].startswith("t/3-")


def _open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return found


# ---- steps per second -------------------------------------------------------------------------


def speeds(*points: tuple[int, float]) -> list[float | None]:
    """At points of (step, time), each looked at a second later."""
    speed = Speed()
    return [speed.at("", step, when, when + 1) for step, when in points]


def test_steps_per_second_are_those_of_the_last_half_minute():
    assert speeds((0, 0.0), (10, 10.0), (10, 12.0), (30, 20.0)) == [None, 1.0, 1.0, 1.5]
    slow_then_fast = [(n, n * 10.0) for n in range(7)] + [(1000, 70.0), (2000, 80.0), (3000, 90.0)]
    assert speeds(*slow_then_fast)[-1] == pytest.approx(99.8, rel=0.01)


def test_a_step_that_goes_back_begins_anew():
    assert speeds((100, 0.0), (200, 10.0), (50, 20.0), (60, 30.0)) == [None, 10.0, None, 1.0]
    assert speeds((100, 50.0), (200, 10.0)) == [None, None]
    speed = Speed()
    assert [speed.at(source, n, float(n), float(n)) for n, source in enumerate("aabb")] == [
        *(None, 1.0),
        *(None, 1.0),
    ]


def test_of_a_program_that_stands_still_nothing_is_said_any_more():
    speed = Speed()
    assert [speed.at("", step, when, when) for step, when in ((0, 0.0), (10, 10.0))] == [None, 1.0]
    assert [speed.at("", 10, 10.0, now) for now in (60.0, 70.0, 71.0)] == [1.0, 1.0, None]
    assert speed.at("", None, 0.0, 80.0) is None


# ---- how much of it travels -------------------------------------------------------------------


def test_what_does_not_fit_is_left_out():
    assert cut([("a", 1.0), ("b", 2.0), ("a", 3.0), ("", 4.0)]) == {"a": 1.0, "b": 2.0}
    assert cut([("n" * (MAX_NAME + 1), 1.0)]) == {}
    assert len(cut((str(n), 1.0) for n in range(100))) == MAX_NAMES
    long = [(f"{n:02}" + "n" * (MAX_NAME - 2), 1 / 3) for n in range(32)]
    kept = cut([*long, ("x", 1.0)])
    assert list(kept) == [name for name, _ in long[: len(kept) - 1]] + ["x"]
    assert MAX_JSON - 100 < len(json.dumps(kept)) <= MAX_JSON


def test_numbers_travel_as_json_has_them():
    values = [1, 0.5, float("nan"), float("-inf"), "inf", True, "1", None, 10**400]
    assert [measure(value) for value in values] == [
        *(1.0, 0.5, "nan", "-inf", "inf"),
        *(None, None, None, "inf"),
    ]
    assert floats({"a": 1.0, "b": "-inf"}) == {"a": 1.0, "b": float("-inf")}
