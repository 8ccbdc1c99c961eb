"""An amount of memory that Skein's messages cannot carry.

Skein takes any number and fails when it writes it into 32 bits, without naming the component.

    yarn.memory: 2 TiB        PASS
    yarn.memory: 4096 TiB     FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "resource-range"
NEEDS = ("resources",)
MEMORY = "yarn.memory"
MAX_AMOUNT = 2**31 - 1  # MiB


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the amount."""
    for resources in (*package.resources.values(), package.master):
        memory = resources.memory
        if isinstance(memory, int) and not 1 <= memory <= MAX_AMOUNT:
            yield Problem(
                resources.positions.get(MEMORY, resources.at),
                CODE,
                f"{MEMORY} of '{resources.name}' is {memory} MiB, expected 1 to {MAX_AMOUNT}",
                hint="a number without a unit is in MiB",
            )
