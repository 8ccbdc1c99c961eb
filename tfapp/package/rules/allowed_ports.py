"""`site.global.slider.allowed.ports` holds a range that has no ports, or numbers that are none.

"48000, 50000-50010"     PASS
"50010-50000"            FAIL
"48000, many"            FAIL
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values
from tfapp.problems import Problem

CODE = "allowed-ports"
NEEDS = ("appConfig",)
KEY = "site.global.slider.allowed.ports"
MAX_PORT = 65535


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value, for the first range that is wrong."""
    for key, value in all_values(package):
        if key == KEY:
            found = filter(None, map(_wrong, value.text.split(",")))
            for message in islice(found, 1):
                hint = "write ports and ranges, such as '48000, 50000-50010'"
                yield Problem(value.at, CODE, message, hint=hint)


def _wrong(word: str) -> str:
    """What is wrong with one port or range, or ""."""
    first, _, last = word.partition("-")
    low, high = int(first), int(last or first)
    if high < low:
        return f"the range {word.strip()} ends before it begins"
    if not 1 <= low <= high <= MAX_PORT:
        return f"{word.strip()} is not within the ports 1 to {MAX_PORT}"
    return ""
