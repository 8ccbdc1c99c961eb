"""The encoding of metrics: names and numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Union

# JSON has no NaN and no infinity: they travel as "nan", "inf" and "-inf", which `float` reads.
Measure = Union[float, str]

# Seconds (since 1970; in a status: since the application's start), step, value.
Point = tuple[float, Union[int, None], Measure]

# Of many instances of a component, in the place of each (status.Series.of).
LOWEST, MIDDLE, HIGHEST = "lowest", "middle", "highest"
UNKNOWN = "-"  # in the place of a value in a series

MAX_NAMES = 32  # of one program
MAX_NAME = 64  # characters
MAX_JSON = 1024  # bytes of the metrics of one instance

_NOT_FINITE = ("nan", "inf", "-inf")


def measure(value: object) -> Measure | None:
    """A number in its encoded form; None for a value that is no number."""
    if value in _NOT_FINITE:
        return str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    return number if math.isfinite(number) else str(number)


def floats(metrics: Mapping[str, Measure]) -> dict[str, float]:
    """The metrics as floats, including NaN and infinities."""
    return {name: float(value) for name, value in metrics.items()}


def cut(metrics: Iterable[tuple[str, Measure]]) -> dict[str, Measure]:
    """The metrics up to the maximal number and size. If a name occurs twice, the first counts. A
    metric that does not fit is skipped; shorter ones after it may still fit."""
    found: dict[str, Measure] = {}
    left = MAX_JSON - 2
    for name, value in metrics:
        if name in found or not name or len(name) > MAX_NAME or len(found) == MAX_NAMES:
            continue
        size = len(json.dumps({name: value}, ensure_ascii=False).encode(errors="replace"))
        if size <= left:
            found[name] = value
            left -= size
    return found
