"""Samples of what all instances use and tell, over time: a bounded number of numbers, however many
instances there are and however long they run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from tfapp.contract.metrics import HIGHEST, LOWEST, MIDDLE, UNKNOWN, floats
from tfapp.contract.status import Samples, Series
from tfapp.coordinator.policy.state import Instance, Stage
from tfapp.course import MAX_POINTS

EVERY = 5.0  # seconds between two samples at first, as between two heartbeats
MOST_SERIES = 64
MOST_METRICS = 8  # of programs
EACH = 8  # up to so many instances of a component are told each for itself

_MIB = 1 << 20
_Key = tuple[str, str, str, bool]  # as in `Series`


class Sampler:
    """Takes the samples of one application. Where MAX_POINTS are reached, every second one is
    dropped, and from then on they are twice as far apart."""

    def __init__(self, earlier: Samples | None = None):
        self.known = earlier
        self._times = list(earlier.times) if earlier else []
        self._series: dict[_Key, list[str]] = {
            (one.who, one.what, one.of, one.program): one.values.split()
            for one in (earlier.series if earlier else ())
        }
        gaps = (b - a for a, b in zip(self._times, self._times[1:]))
        self._every = max(EVERY, min(gaps, default=EVERY))

    def observe(self, instances: Iterable[Instance], now: float) -> None:
        """Takes a sample if it is time for one. `now`: seconds since the application's start."""
        if self._times and now < self._times[-1] + self._every:
            return
        values = dict(_sample([i for i in instances if i.stage is Stage.RUNNING]))
        if not values:
            return
        for key in values:
            if key not in self._series and len(self._series) < MOST_SERIES:
                self._series[key] = [UNKNOWN] * len(self._times)
        self._times.append(round(now, 1))
        for key, told in self._series.items():
            told.append(f"{values[key]:.4g}" if key in values else UNKNOWN)
        if len(self._times) >= MAX_POINTS:
            self._every *= 2
            del self._times[1::2]
            for told in self._series.values():
                del told[1::2]
        series = (
            Series(who, what, " ".join(told), of, program)
            for (who, what, of, program), told in self._series.items()
        )
        self.known = Samples(tuple(self._times), tuple(series))


def _sample(running: Sequence[Instance]) -> Iterator[tuple[_Key, float]]:
    """The value of each series; what is the most worth knowing comes first."""
    members: dict[str, list[Instance]] = {}
    for instance in running:
        members.setdefault(instance.component, []).append(instance)
    metrics = dict.fromkeys(name for one in running for name in one.metrics)
    kinds = [(name, False) for name in ("cpu", "memory", "gpu", "steps_per_second")]
    for what, program in (*kinds, *((name, True) for name in list(metrics)[:MOST_METRICS])):
        for component, each in members.items():
            known = [
                (one.id, value)
                for one in each
                if (value := _value(one, what, program)) is not None and math.isfinite(value)
            ]
            if len(each) <= EACH:
                yield from (((who, what, "", program), value) for who, value in known)
            elif known:
                values = [value for _, value in known]
                yield (component, what, LOWEST, program), min(values)
                yield (component, what, MIDDLE, program), statistics.median(values)
                yield (component, what, HIGHEST, program), max(values)


def _value(instance: Instance, what: str, program: bool) -> float | None:
    if program:
        return floats(instance.metrics).get(what)
    if what == "steps_per_second":
        return instance.steps_per_second
    usage = instance.usage
    if usage is None:
        return None
    return {"cpu": usage.cpu, "memory": usage.memory / _MIB, "gpu": usage.gpu}[what]
