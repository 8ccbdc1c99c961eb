"""Waits for something, without taking the processor from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


def wait(
    ready: Callable[[], Any],
    otherwise: str | Callable[[], object],
    limit: float,
    every: float = 0.1,
) -> Any:
    """The first true result of `ready`; AssertionError with `otherwise` after `limit` seconds.
    Between two looks it sleeps twice as long as a look takes, `every` seconds at least: a look may
    be a command, or read all of /proc."""
    end = time.monotonic() + limit
    while True:
        begun = time.monotonic()
        if found := ready():
            return found
        assert begun < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(max(every, min(2 * (time.monotonic() - begun), 2.0)))


async def until(ready: Callable[[], Any], limit: float = 60.0) -> None:
    """Waits for a true result of `ready` while other tasks go on."""
    end = time.monotonic() + limit
    while not ready():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
