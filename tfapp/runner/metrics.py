"""The metrics of a program: read from the file that it reports to, and from the files that it
writes for TensorBoard. One look reads a bounded amount, whatever the program reports."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tfapp import threads
from tfapp.contract import metrics
from tfapp.contract.metrics import Measure, Point
from tfapp.contract.usage import Usage
from tfapp.course import MAX_CURVES, MAX_POINTS, Course
from tfapp.frozen import frozen
from tfapp.runner.cgroup import Group
from tfapp.runner.open_event_files import OpenEventFiles
from tfapp.runner.usage import UsageMeter

LOOK_LIMIT = 0.25  # seconds that a heartbeat waits for a look; a shared folder may be slow
LAST_LOOK_LIMIT = 2.0  # the same for the report of a program's end

_WINDOW = 30.0  # seconds over which steps per second are counted
_PAUSE = 60.0  # without a step for so long, and three times the window, they are not known any more
_MOST_BYTES = 64 << 10  # of the file that a program reports to
_LAST_LOOKS = 16  # at event files, once nobody writes them


@frozen
class Reading:
    """The known metrics of a program, as `tfapp.contract.messages.Beat` has them."""

    metrics: Mapping[str, Measure]
    step: int | None
    steps_per_second: float | None
    epoch: int | None = None
    points: Mapping[str, tuple[Point, ...]] = dataclasses.field(default_factory=dict)
    total: int | None = None
    usage: Usage | None = None


NOTHING = Reading({}, None, None)


@frozen
class _Reported:
    metrics: Mapping[str, Measure]
    step: int | None
    time: float
    points: Mapping[str, tuple[Point, ...]]
    total: int | None = None


_NOT_REPORTED = _Reported({}, None, 0.0, {})


class Meter:
    """The metrics of one program, and what it uses of its machine. `file`: the file that it reports
    to; content from before is an older program's and is ignored. `pids`: the processes of the
    program. `private`: a folder that no other program writes to. `vcores`, `memory` (bytes) and
    `gpus`: what its container has asked for. `group`: see UsageMeter. `look` may be called by
    several threads."""

    def __init__(
        self,
        file: Path,
        pids: Callable[[], Iterable[int]],
        private: Path | None = None,
        calendar: Callable[[], float] = time.time,
        vcores: int = 1,
        memory: int = 0,
        gpus: int = 0,
        group: Callable[[], Group | None] = lambda: None,
    ):
        self._usage = UsageMeter(pids, vcores, memory, gpus, group=group)
        self._file = ReportFile(file)
        self._events = OpenEventFiles(pids)
        self._speed = Speed()
        self._private = private
        self._calendar = calendar
        self._began = calendar()
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self.reading = NOTHING  # of the last look
        self._over = False  # whether the program has ended

    def look(self, limit: float) -> Reading:
        """The present metrics, or the last ones if looking takes longer than `limit` seconds. A
        thread of its own looks, once at a time."""
        with self._lock:
            looking = self._looking
            if looking is None or not looking.is_alive():
                try:
                    looking = threads.start("tfapp-metrics", self._look)
                except OSError:  # no thread; the next heartbeat looks again
                    return self.reading
                self._looking = looking
        looking.join(limit)
        return self.reading

    def last(self, limit: float) -> Reading:
        """The metrics up to the program's end, for after that."""
        with self._lock:
            self._over, looking = True, self._looking
        if looking is not None:
            looking.join(limit)
            if looking.is_alive():
                return self.reading
        return self.look(limit)

    def _look(self) -> None:
        reported, events = self._file.read(), self._events
        over = self._over
        if over and self._private is not None:
            events.add_written(self._private, self._began)
        for _ in range(_LAST_LOOKS if over else 1):
            if not events.look():
                break
        source, step, when = "", reported.step, reported.time
        epoch = None
        if step is None:
            source, step, when = events.newest_step()
            epoch = events.newest_epoch() if step is None else None
        found = metrics.cut(
            (*reported.metrics.items(), *_unsaid(events.newest(), reported.metrics))
        )
        courses = {**events.courses(), **reported.points}
        self.reading = Reading(
            found,
            step,
            self._speed.at(source, step, when, self._calendar()),
            epoch,
            {name: courses[name] for name in [n for n in found if n in courses][:MAX_CURVES]},
            reported.total,
            (None if over else self._usage.look()) or self.reading.usage,
        )
        if over:
            events.close()


def _unsaid(
    found: Iterable[tuple[str, Measure]], reported: Mapping[str, Measure]
) -> Iterator[tuple[str, Measure]]:
    """The metrics of TensorBoard without those that the program reports itself: Keras writes "loss"
    as train/epoch_loss, and "val_loss" as validation/epoch_loss."""
    for name, value in found:
        run, _, tag = name.rpartition("/")
        metric = tag.removeprefix("epoch_")
        said = f"val_{metric}" if run.endswith("validation") else metric
        if metric == tag or said not in reported:
            yield name, value


class ReportFile:
    """The file that a program reports to, as `tfapp.program.reporting` writes it:
    {"step": 12 or null, "total": 5000 or null, "time": seconds since 1970,
    "metrics": {"loss": 0.31}}."""

    def __init__(self, path: Path):
        self._path = path
        self._last = _NOT_REPORTED
        self._courses: dict[str, Course[Measure]] = {}  # of a program that writes the file itself
        with contextlib.suppress(OSError):
            path.unlink()
        self._read = _identity(path)  # what was read, or is not to be

    def read(self) -> _Reported:
        """The content of the file, or the last content that could be read."""
        seen = _identity(self._path)
        if seen is None or seen == self._read:
            return self._last
        try:
            # A pipe of this name must not hold it up.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                whole = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = os.read(descriptor, _MOST_BYTES) if whole else b""
            finally:
                os.close(descriptor)
            self._last = self._with_courses(_reported(json.loads(data)), seen[1] / 1e9)
            self._read = seen
        except (OSError, ValueError):  # a program that writes it itself may be in the middle of it
            pass
        return self._last

    def _with_courses(self, reported: _Reported, written: float) -> _Reported:
        """With a point for each look, where the file tells none. `written`: the file's time."""
        for name, value in reported.metrics.items():
            if name not in reported.points and (
                name in self._courses or len(self._courses) < MAX_CURVES
            ):
                course = self._courses.setdefault(name, Course())
                course.add(round(reported.time or written, 1), reported.step, value)
        own = {name: course.points() for name, course in self._courses.items()}
        return dataclasses.replace(reported, points={**own, **reported.points})


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _reported(data: object) -> _Reported:
    """ValueError for anything but an object."""
    if not isinstance(data, dict):
        raise ValueError("no object")
    step, when, values = data.get("step"), data.get("time"), data.get("metrics")
    found = {}
    for name, value in values.items() if isinstance(values, dict) else ():
        number = metrics.measure(value)
        if number is not None:
            found[name] = number
    known = metrics.measure(when)
    courses = data.get("points")
    points = {
        name: read
        for name, told in (courses.items() if isinstance(courses, dict) else ())
        if name in found and (read := tuple(_points(told)))
    }
    when = known if isinstance(known, float) else 0.0
    return _Reported(found, _step(step), when, points, _step(data.get("total")))


def _points(told: object) -> Iterator[Point]:
    for point in told[: MAX_POINTS + 1] if isinstance(told, list) else ():
        if isinstance(point, list) and len(point) == 3:
            time, value = metrics.measure(point[0]), metrics.measure(point[2])
            if isinstance(time, float) and value is not None:
                yield time, _step(point[1]), value


def _step(step: object) -> int | None:
    return step if type(step) is int and abs(step) < 1 << 63 else None


class Speed:
    """Steps per second, over a short time."""

    def __init__(self) -> None:
        self._source = ""
        self._points: collections.deque[tuple[int, float]] = collections.deque()  # (step, time)

    def at(self, source: str, step: int | None, when: float, now: float) -> float | None:
        """With `source`'s step at the time `when`. None where it is not known yet, or any more:
        nothing has come for long. Times: seconds since 1970."""
        points = self._points
        if step is None:
            return None
        if points and (source != self._source or step < points[-1][0] or when < points[-1][1]):
            points.clear()
        self._source = source
        if not points or step > points[-1][0]:
            points.append((step, when))
        while len(points) > 2 and points[-1][1] - points[1][1] >= _WINDOW:
            points.popleft()
        if len(points) < 2:
            return None
        (first, began), (last, ended) = points[0], points[-1]
        if ended <= began or now - ended > max(_PAUSE, 3 * (ended - began)):
            return None
        return float(f"{(last - first) / (ended - began):.4g}")
