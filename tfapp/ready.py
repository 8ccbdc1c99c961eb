"""Waits for files, however many others the process has open: `select.select` refuses each file
whose number is above 1,023."""

from __future__ import annotations

import selectors
from collections.abc import Collection
from typing import Any

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


def ready(
    reads: Collection[Any] = (), writes: Collection[Any] = (), seconds: float | None = None
) -> tuple[list[Any], list[Any]]:
    """The files (numbers, or objects with `fileno`) that can be read, and that can be written. It
    waits for the first one: `seconds` at most, or for ever. ValueError for a closed file."""
    with selectors.PollSelector() as selector:
        for file in {*reads, *writes}:
            selector.register(file, _READ * (file in reads) | _WRITE * (file in writes))
        found = [(key.fileobj, events) for key, events in selector.select(seconds)]
    readable = [file for file, events in found if events & _READ]
    return readable, [file for file, events in found if events & _WRITE]
