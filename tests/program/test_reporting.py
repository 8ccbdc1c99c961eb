"""What a program reports, and when it is written."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests import programs
from tests.runner.driving import eventually
from tfapp.contract import metrics
from tfapp.course import MAX_CURVES
from tfapp.program import reporting
from tfapp.program.reporting import Reporter
from tfapp.runner.metrics import _MOST_BYTES


@pytest.fixture
def make(tmp_path):
    """Reporters that are closed at the end. They write to tmp_path / "file"."""
    made = []

    def make(interval: float = 0.0, path: Path | None = tmp_path / "file") -> Reporter:
        said: list[str] = []
        reporter = Reporter(path and str(path), lambda: 1.5e9, interval, said.append)
        reporter.said = said  # type: ignore[attr-defined]
        made.append(reporter)
        return reporter

    yield make
    for reporter in made:
        reporter.close()


def read(path: Path) -> dict | None:
    """What a reporter has written, without the points of courses."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    del found["points"]
    return found


def test_points_are_all_that_was_reported_each_with_its_own_step(make, tmp_path):
    reporter = make(interval=600)
    for step in range(3):
        reporter.report({"loss": float("nan") if step == 1 else 0.5}, step=step)
    reporter.report({}, step=7)
    reporter.report({"accuracy": 1})
    reporter.report({f"more {n}": n for n in range(20)})
    reporter.flush()
    points = json.loads((tmp_path / "file").read_text())["points"]
    assert points["loss"] == [[1.5e9, 0, 0.5], [1.5e9, 1, "nan"], [1.5e9, 2, 0.5]]
    assert points["accuracy"] == [[1.5e9, 7, 1.0]]
    assert len(points) == MAX_CURVES


def test_the_longest_file_is_read_whole(make, tmp_path):
    reporter = make(interval=600)
    for step in range(10_000):
        values = {f"{'n' * 60} {n}": step / 3 + 1e-300 for n in range(32)}
        reporter.report(values, step=2**62 + step)
    reporter.flush()
    assert (tmp_path / "file").stat().st_size <= _MOST_BYTES


def test_limits_are_those_of_the_runner():
    """The module travels without the contract."""
    assert (reporting.MAX_NAMES, reporting.MAX_NAME) == (metrics.MAX_NAMES, metrics.MAX_NAME)


def test_the_last_values_are_written(make, tmp_path):
    reporter = make(interval=600)
    reporter.report({"loss": 0.5, "accuracy": 1}, step=1, total=np.int64(9))
    expected = {"step": 1, "total": 9, "time": 1.5e9, "metrics": {"loss": 0.5, "accuracy": 1.0}}
    eventually(lambda: read(tmp_path / "file") == expected, "the first is written at once")
    reporter.report({"loss": 0.4}, step=2)
    reporter.report({"loss": np.float32(0.25), "rate": np.array(2)})
    assert read(tmp_path / "file") == expected  # the second is not due for long
    reporter.flush()
    assert read(tmp_path / "file") == {
        "step": 2,
        "total": 9,
        "time": 1.5e9,
        "metrics": {"loss": 0.25, "accuracy": 1.0, "rate": 2.0},
    }
    assert os.listdir(tmp_path) == ["file"]


def test_what_was_reported_last_is_written_without_another_report(make, tmp_path):
    reporter = make(interval=0.05)
    for step in range(200):
        reporter.report({"n": step}, np.int64(step))
    eventually(lambda: (read(tmp_path / "file") or {}).get("step") == 199, "the last one")


@pytest.mark.parametrize(
    ("given", "step", "error"),
    [
        ({"a": "0.5"}, 1, "metric a: '0.5' is no number"),
        ({"a": None}, 1, "metric a: None is no number"),
        ({"a": [0.5, 1.0]}, 1, "metric a: [0.5, 1.0] is no number"),
        ({"a": 1j}, 1, "metric a: 1j is no number"),
        ({"a": 10**400}, 1, f"metric a: {'1' + 59 * '0'} is too large for a float"),
        ({1: 0.5}, 1, "1 is no name of a metric: a text that is not empty is expected"),
        ({"": 1}, 1, "'' is no name of a metric: a text that is not empty is expected"),
        ({"a": 1.0}, 1.5, "step: 1.5 is no whole number"),
        ({"a": 1.0}, "1", "step: '1' is no whole number"),
        ({"a": 1.0}, 1 << 63, "step: 9223372036854775808 has more than 64 bits"),
        (0.5, 1, "0.5 is no mapping of names to numbers"),
        ({"a": 1.0}, (1, 2.5), "total: 2.5 is no whole number"),
        ({"a": 1.0}, (1, -(2**64)), "total: -18446744073709551616 has more than 64 bits"),
    ],
)
def test_what_is_no_number_is_refused_whole(make, tmp_path, given, step, error):
    reporter = make()
    with pytest.raises((TypeError, ValueError)) as caught:
        steps = step if isinstance(step, tuple) else (step,)
        reporter.report({"good": 1.0, **given} if isinstance(given, dict) else given, *steps)
    assert str(caught.value) == error
    reporter.report({"b": 1.0})
    reporter.flush()
    expected = {"step": None, "total": None, "time": 1.5e9, "metrics": {"b": 1.0}}
    assert read(tmp_path / "file") == expected


def test_nan_and_infinity_are_written_as_json_can(make, tmp_path):
    reporter = make()
    reporter.report({"a": float("nan"), "b": float("-inf")})
    reporter.flush()
    assert (read(tmp_path / "file") or {})["metrics"] == {"a": "nan", "b": "-inf"}


@pytest.mark.parametrize(
    ("names", "kept", "said"),
    [
        (
            [str(n) for n in range(40)],
            [str(n) for n in range(32)],
            "metric 32 is left out: there are 32 already",
        ),
        (
            ["a", "b" * 65, "c" * 64],
            ["a", "c" * 64],
            f"metric {'b' * 64}... is left out: its name is too long",
        ),
    ],
)
def test_what_is_too_much_is_left_out_with_one_warning(make, tmp_path, names, kept, said):
    reporter = make()
    for value in (1.0, 2.0):
        reporter.report(dict.fromkeys(names, value))
    reporter.flush()
    assert (read(tmp_path / "file") or {})["metrics"] == dict.fromkeys(kept, 2.0)
    assert reporter.said == [said]


def test_a_full_disk_is_none_of_the_program_s_concern(make, tmp_path):
    path = tmp_path / "folder" / "file"
    reporter = make(path=path)
    reporter.report({"a": 1.0})
    eventually(lambda: reporter.said, "it was tried")
    reporter.report({"a": 2.0})
    path.parent.mkdir()
    eventually(lambda: (read(path) or {}).get("metrics") == {"a": 2.0}, "it is tried again")
    assert reporter.said == [f"metrics cannot be written: {path}: No such file or directory"]


def test_without_a_runner_nothing_is_written(make):
    reporter = make(path=None)
    reporter.report({"a": 1.0}, 1)
    reporter.flush()
    with pytest.raises(TypeError):
        reporter.report({"a": "x"})


def test_threads_may_report_at_the_same_time(make, tmp_path):
    reporter = make(interval=0.001)

    def work(name: str) -> None:
        for step in range(2000):
            reporter.report({name: step}, step)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.flush()
    assert (read(tmp_path / "file") or {})["metrics"] == {f"t{n}": 1999.0 for n in range(4)}


PROGRAM = """
import atexit, os, sys
from tfapp.program.reporting import report
atexit.register(lambda: report({"late": 1.0}))  # runs after what is registered later
for step in range(1000):
    report({"loss": 1 / (step + 1)}, step=step)
if os.fork() == 0:
    report({"child": 1.0})
    sys.exit(0)
os.wait()
sys.exit(3)
"""


def test_the_end_of_a_program_writes_what_it_reported_last(tmp_path):
    path = tmp_path / "file"
    no_warning = ("-W", "ignore::DeprecationWarning")  # of fork
    environ = {"TFAPP_METRICS_FILE": str(path)}
    done = programs.python(*no_warning, "-c", PROGRAM, environ=environ)
    assert (done.returncode, done.stderr) == (3, "")
    found = read(path)
    assert found is not None
    assert found["step"] == 999
    assert found["metrics"]["loss"] == 0.001
    assert found["metrics"]["late"] == 1.0
    assert os.listdir(tmp_path) == ["file"]
