"""The history of reported metrics, thinned out so that it fits into every status."""

from __future__ import annotations

from collections.abc import Iterable

from tfapp.contract.metrics import Measure
from tfapp.contract.status import Curve, InstanceStatus

MAX_CURVES = 8  # of an application
MAX_POINTS = 64  # of a curve

Point = tuple[float, "int | None", Measure]


class Curves:
    """The metrics of each component's first instance over time. When a curve has MAX_POINTS points,
    every second one is dropped, and from then on only every second new value is kept."""

    def __init__(self) -> None:
        self._courses: dict[tuple[str, str], _Course] = {}

    def observe(self, instances: Iterable[InstanceStatus], seconds: float) -> None:
        """Adds new values. `seconds`: since the application's start."""
        seen: set[str] = set()
        for instance in instances:
            if instance.component in seen:
                continue
            seen.add(instance.component)
            for metric, value in instance.metrics.items():
                key = instance.instance, metric
                if key not in self._courses and len(self._courses) < MAX_CURVES:
                    self._courses[key] = _Course()
                if key in self._courses:
                    self._courses[key].add(seconds, instance.step, value)

    def known(self) -> tuple[Curve, ...]:
        """All curves, in the order in which their metrics were first reported."""
        return tuple(
            Curve(instance, metric, course.points())
            for (instance, metric), course in self._courses.items()
        )


class _Course:
    def __init__(self) -> None:
        self._points: list[Point] = []
        self._newest: Point | None = None
        self._stride = 1  # one new value in so many is kept
        self._left = 0  # values to skip before the next one that is kept

    def add(self, seconds: float, step: int | None, value: Measure) -> None:
        """Adds a value, unless step and value are the same as before."""
        if self._newest is not None and self._newest[1:] == (step, value):
            return
        self._newest = (round(seconds, 1), step, value)
        if self._left:
            self._left -= 1
            return
        self._points.append(self._newest)
        self._left = self._stride - 1
        if len(self._points) == MAX_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    def points(self) -> tuple[Point, ...]:
        """The points that were kept, and the newest one."""
        points = tuple(self._points)
        if self._newest is None or self._newest in points[-1:]:
            return points
        return (*points, self._newest)
