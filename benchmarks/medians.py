"""Runs measurements in turn and prints their medians and ratios to the first."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping


def compare(measurements: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Calls each measurement (returns seconds) once in every round, prints a line for each, and
    returns the medians. On stderr it says what each call has taken."""
    seconds: dict[str, list[float]] = {name: [] for name in measurements}
    for number in range(1, rounds + 1):
        for name, measure in measurements.items():
            seconds[name].append(measure())
            print(f"{number}/{rounds}: {seconds[name][-1]:.3f} s  {name}", file=sys.stderr)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = next(iter(medians.values()))
    for name, median in medians.items():
        low, high = min(seconds[name]), max(seconds[name])
        print(f"{median:8.3f} s  {median / base:6.2f}x  ({low:.3f} to {high:.3f})  {name}")
    return medians


def parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """The command line of a benchmark: how often it measures."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = "how often (default: %(default)s); 1: what is measured has not run once before"
    made.add_argument("--rounds", metavar="N", type=int, default=rounds, help=text)
    return made
