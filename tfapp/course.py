"""The course of a metric over time, as few points. This module is shipped to programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

MAX_CURVES = 8
MAX_POINTS = 64  # of a curve

Value = TypeVar("Value")  # a number in some form


class Course(Generic[Value]):
    """At most MAX_POINTS points, and the newest. When there are so many, every second one is
    dropped, and from then on only every second new value is kept."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int | None, Value]] = []
        self._newest: tuple[float, int | None, Value] | None = None
        self._stride = 1  # one new value in so many is kept
        self._left = 0  # values to skip before the next one that is kept

    def add(self, time: float, step: int | None, value: Value) -> None:
        """Adds a value, unless step and value are the same as before."""
        if self._newest is not None and self._newest[1:] == (step, value):
            return
        self._newest = (time, step, value)
        if self._left:
            self._left -= 1
            return
        self._points.append(self._newest)
        self._left = self._stride - 1
        if len(self._points) >= MAX_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    def points(self) -> tuple[tuple[float, int | None, Value], ...]:
        """The points that were kept, and the newest one."""
        points = tuple(self._points)
        if self._newest is None or self._newest in points[-1:]:
            return points
        return (*points, self._newest)


Point = TypeVar("Point")


def thinned(points: Iterable[Point]) -> tuple[Point, ...]:
    """Every second point, and the newest, until at most MAX_POINTS are left."""
    left = tuple(points)
    while len(left) > MAX_POINTS:
        left = (*left[:-1][::2], left[-1])
    return left
