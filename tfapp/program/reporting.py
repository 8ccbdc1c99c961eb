"""Metrics that a program reports: their last values, in the file that its runner reads.

    from tfapp.program.reporting import report

    report({"loss": 0.31, "accuracy": 0.9}, step=1200, total=5000)

It may be called for every batch: a thread writes the file, at most once a second, and the last
values at the end. Where there is no runner nothing is written. Standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

from tfapp import threads
from tfapp.course import MAX_CURVES, Course

FILE = "TFAPP_METRICS_FILE"  # the variable that names the file
INTERVAL = 1.0  # seconds between two writes
MAX_NAMES = 32
MAX_NAME = 64  # characters

_MAX_STEP = 2**63


def report(metrics: Mapping[str, float], step: int | None = None, total: int | None = None) -> None:
    """Reports metrics (name -> number) and the training step to which they belong. `total`: the
    step at which the training ends, for percent and the time left. Values replace earlier values of
    the same name. Other metrics are kept, and so are step and total if they are None.

    A value is a Python number, a NumPy number or a scalar tensor; NaN and infinities are allowed.
    For any other value, also text, TypeError or ValueError is raised and nothing is reported. An
    instance has at most 32 metrics, with names of at most 64 characters; others are ignored with
    one warning. If the disk is full, values are lost and the program continues.

    >>> report({"loss": 0.25}, step=10)
    """
    _reporter().report(metrics, step, total)


def flush() -> None:
    """Writes pending values at once. Also happens at the end of the program.

    >>> flush()
    """
    _reporter().flush()


class Reporter:
    """Writes the metrics of a program to the file `path`; nowhere if that is None. `calendar`
    returns seconds since 1970. `warn` prints a line."""

    def __init__(
        self,
        path: str | None,
        calendar: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        warn: Callable[[str], None] | None = None,
    ):
        self._path = path
        self._calendar = calendar
        self._interval = interval
        self._warn = warn or _warn
        self._values: dict[str, float] = {}
        self._courses: dict[str, Course[float]] = {}  # of the first metrics
        self._step: int | None = None
        self._total: int | None = None
        self._time = 0.0
        self._warned: set[str] = set()
        self._closed = False
        self._forget_threads()

    def _forget_threads(self) -> None:
        """Makes new locks after a fork. The thread of the parent process writes what was
        pending."""
        self._pending = False  # whether something is not written yet
        self._lock = threading.Lock()  # of the values
        self._writing = threading.Lock()  # of the file
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def report(
        self, metrics: Mapping[str, float], step: int | None = None, total: int | None = None
    ) -> None:
        taken = {}
        try:
            items = metrics.items()
        except AttributeError:
            raise TypeError(f"{metrics!r:.60} is no mapping of names to numbers") from None
        for name, value in items:
            if type(value) is not float or type(name) is not str:
                value = _number(name, value)
            taken[name] = value
        if step is not None:
            step = _whole("step", step)
        if total is not None:
            total = _whole("total", total)
        with self._lock:
            if not taken.keys() <= self._values.keys():
                taken = self._admitted(taken)
            self._values.update(taken)
            if step is not None:
                self._step = step
            if total is not None:
                self._total = total
            self._time = self._calendar()
            self._keep_course(taken)
            if self._pending or self._path is None:
                return
            self._pending = True
        if self._closed:
            self.flush()
            return
        self._wake.set()
        if self._thread is None:
            self._start()

    def _keep_course(self, taken: Mapping[str, float]) -> None:
        for name, value in taken.items():
            course = self._courses.get(name)
            if course is None:
                if len(self._courses) == MAX_CURVES:
                    continue
                course = self._courses[name] = Course()
            course.add(round(self._time, 1), self._step, value)

    def flush(self) -> None:
        with self._writing:
            with self._lock:
                if not self._pending:
                    return
                self._pending = False
                data = {
                    "step": self._step,
                    "total": self._total,
                    "time": self._time,
                    "metrics": {name: _in_json(value) for name, value in self._values.items()},
                    "points": {
                        name: [(time, step, _in_json(value)) for time, step, value in one.points()]
                        for name, one in self._courses.items()
                    },
                }
            try:
                self._write(json.dumps(data))
            except OSError as error:
                with self._lock:
                    self._pending = True
                self._warn_once(f"metrics cannot be written: {self._path}: {error.strerror}")

    def close(self) -> None:
        """Flushes at the end of the process. Values that are reported later are written at once."""
        self._closed = True
        self._wake.set()
        self.flush()

    def _write(self, text: str) -> None:
        new = f"{self._path}.{os.getpid()}"
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, self._path)  # type: ignore[arg-type]

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._closed:
                return
            with contextlib.suppress(OSError):  # no more threads: a later report, or the end
                self._thread = threads.start("tfapp-metrics", self._run)

    def _run(self) -> None:
        wake = self._wake
        while not self._closed:
            wake.wait()
            wake.clear()
            self.flush()
            time.sleep(self._interval)
            if self._pending:  # it could not be written
                wake.set()

    def _admitted(self, taken: dict[str, float]) -> dict[str, float]:
        """The metrics of `taken` within the maximal number."""
        admitted = {}
        room = MAX_NAMES - len(self._values)
        for name, value in taken.items():
            if name in self._values:
                admitted[name] = value
            elif len(name) > MAX_NAME:
                self._warn_once(f"metric {name[:MAX_NAME]}... is left out: its name is too long")
            elif room <= 0:
                self._warn_once(f"metric {name} is left out: there are {MAX_NAMES} already")
            else:
                admitted[name] = value
                room -= 1
        return admitted

    def _warn_once(self, text: str) -> None:
        """Prints a warning, but only the first one: the same problem occurs at every step."""
        if not self._warned:
            self._warned.add(text)
            self._warn(text)


def _in_json(value: float) -> float | str:
    """JSON has no NaN and no infinity: "nan", "inf", "-inf"."""
    return value if math.isfinite(value) else str(value)


def _number(name: object, value: object) -> float:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{name!r} is no name of a metric: a text that is not empty is expected")
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError:
            raise ValueError(f"metric {name}: {value!r:.60} is too large for a float") from None
        except (TypeError, ValueError):
            pass
    raise TypeError(f"metric {name}: {value!r:.60} is no number")


def _whole(what: str, step: object) -> int:
    try:
        number = step if type(step) is int else operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what}: {step!r:.60} is no whole number") from None
    if not -_MAX_STEP <= number < _MAX_STEP:
        raise ValueError(f"{what}: {number} has more than 64 bits")
    return number


def _warn(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error is closed
        print(f"tfapp: {text}", file=sys.stderr, flush=True)


_own: Reporter | None = None
_making = threading.Lock()


def _reporter() -> Reporter:
    global _own
    if _own is None:
        with _making:
            if _own is None:
                reporter = Reporter(os.environ.get(FILE) or None)
                atexit.register(reporter.close)
                os.register_at_fork(after_in_child=reporter._forget_threads)
                _own = reporter
    return _own
