"""The rows of one partition that are done, as intervals with a digest of their content, and the
order of rows in a shuffle window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Digests are added modulo this number, so that adjacent intervals can be merged.
DIGESTS = 1 << 64


class Interval(NamedTuple):
    """The rows from `start` up to, but not including, `end`. `digest`: that of these rows,
    None if it is not known."""

    start: int
    end: int
    digest: int | None


class Intervals:
    """A set of disjoint intervals, iterated in order."""

    def __init__(self, found: tuple[Interval, ...] = ()):
        self._found = list(found)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._found)

    @property
    def rows(self) -> int:
        return sum(one.end - one.start for one in self._found)

    def copy(self) -> Intervals:
        return Intervals(tuple(self._found))

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any row from `start` up to `end` is in the set."""
        at = bisect_left(self._found, (end,)) - 1
        return at >= 0 and self._found[at].end > start

    def add(self, start: int, end: int, digest: int | None) -> None:
        """Adds an interval. ValueError if it is empty, or one of its rows is in the set already."""
        if start >= end or self.overlaps(start, end):
            raise ValueError(f"rows {start} to {end} are done already")
        at = bisect_left(self._found, (start,))
        new = Interval(start, end, digest)
        if at < len(self._found) and self._joins(new, self._found[at]):
            new = self._joined(new, self._found.pop(at))
        if at and self._joins(self._found[at - 1], new):
            at -= 1
            new = self._joined(self._found.pop(at), new)
        self._found.insert(at, new)

    @staticmethod
    def _joins(left: Interval, right: Interval) -> bool:
        return left.end == right.start and (left.digest is None) == (right.digest is None)

    @staticmethod
    def _joined(left: Interval, right: Interval) -> Interval:
        if left.digest is None or right.digest is None:
            return Interval(left.start, right.end, None)
        return Interval(left.start, right.end, (left.digest + right.digest) % DIGESTS)


def window_order(seed: int, generation: int, worker: int, window: int, rows: int) -> Sequence[int]:
    """The order in which a worker's program gets the rows of a shuffle window: a permutation of
    range(rows), the same in every process."""
    import numpy as np

    mixed = (seed * 1_000_003 + generation * 10_007 + worker * 101 + window) % (1 << 32)
    # NumPy guarantees the sequence of RandomState for all versions.
    return np.random.RandomState(mixed).permutation(rows).tolist()
