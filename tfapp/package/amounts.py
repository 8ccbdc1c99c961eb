"""Amounts with a unit: memory, the sizes of Docker's options, durations. One grammar for all: a
number, then a unit in any case, with or without a space between them.

    B, KiB, MiB, GiB, TiB    1024 at each step; K, M, G and T alone are the same, as for Docker
    KB, MB, GB, TB           1000 at each step
    s, min, h, d             seconds, minutes, hours, days

A number without a unit counts in what its key says. The schemas have the same as `pattern`s,
which tests/package/test_amounts.py holds against this.
"""

from __future__ import annotations

import math
import re

_AMOUNT = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))? ?([A-Za-z]*)\Z")
_SIZES = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}{end}": 1024**p for p, letter in enumerate("kmgt", 1) for end in ("", "ib")},
}
_TIMES = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def size(amount: int | str, unit: str = "B") -> int:
    """Bytes, rounded up. A number without a unit counts in `unit`. ValueError for a text that is
    no size.

    >>> size("2 GiB"), size("2 GB"), size("64k"), size(3, "MiB")
    (2147483648, 2000000000, 65536, 3145728)
    """
    whole, divisor = _amount(str(amount), _SIZES, unit)
    return -(-whole // divisor)


def mebibytes(amount: int | str) -> int:
    """MiB, rounded up; a number without a unit is MiB. ValueError for a text that is no size."""
    return -(-size(amount, "MiB") // 1024**2)


def seconds(amount: float | str) -> float:
    """Seconds; a number without a unit is seconds. ValueError for a text that is no duration.

    >>> seconds("10 min"), seconds("1.5h"), seconds(30)
    (600.0, 5400.0, 30.0)
    """
    try:
        found = float(amount)
    except ValueError:
        whole, divisor = _amount(str(amount), _TIMES, "s")
        return whole / divisor
    if not math.isfinite(found):
        raise ValueError(f"{amount!r} is no duration")
    return found


def _amount(text: str, units: dict[str, int], default: str) -> tuple[int, int]:
    """The amount in `text`, as a number and its divisor."""
    match = _AMOUNT.match(text)
    unit = (match[3] or default).lower() if match else ""
    if match is None or unit not in units:
        raise ValueError(f"{text!r} is no amount: expected a number and {', '.join(units)}")
    fraction = match[2] or ""
    return int(match[1] + fraction) * units[unit], 10 ** len(fraction)
