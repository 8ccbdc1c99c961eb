"""Runs measurements in turn and prints their medians and ratios to the first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping


def compare(measurements: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Calls each measurement (returns seconds) once in every round, prints a line for each, and
    returns the medians."""
    seconds: dict[str, list[float]] = {name: [] for name in measurements}
    for _ in range(rounds):
        for name, measure in measurements.items():
            seconds[name].append(measure())
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = next(iter(medians.values()))
    for name, median in medians.items():
        low, high = min(seconds[name]), max(seconds[name])
        print(f"{median:8.3f} s  {median / base:6.2f}x  ({low:.3f} to {high:.3f})  {name}")
    return medians
