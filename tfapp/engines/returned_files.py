"""Which of the records that containers have left says what an instance returned."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tfapp.contract.names import FAILED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import LogFile

# What `tfapp.program.returned` writes where a function returned something, or tried to.
_OUTCOMES = {"value", "file", "error"}
_UNKNOWN = 0  # as a generation


def newest(records: Iterable[LogFile], status: ApplicationStatus) -> tuple[LogFile, ...]:
    """Of each instance's records, the older containers' first, that of its newest generation.
    None where the function returned None there, where `status` knows of a later generation, and
    where the program has failed after all. Nothing is decoded."""
    failed = {i.instance for i in status.instances if i.state == FAILED}
    found: dict[str, tuple[int, bool, LogFile]] = {}
    for record in records:
        generation, tells = _read(record.path)
        old = _UNKNOWN < generation < (status.generation or _UNKNOWN)
        known = found.get(record.instance)
        if old or (record.instance in failed and not record.missing):
            continue
        if known is None or generation >= known[0]:
            found[record.instance] = (generation, tells, record)
    return tuple(record for _, tells, record in found.values() if tells)


def _read(path: Path) -> tuple[int, bool]:
    """(generation, whether there is an outcome). One that is damaged is of an unknown generation,
    and for the decoder to complain about."""
    try:
        record = json.loads(path.read_bytes())
        return int(record["generation"]), not _OUTCOMES.isdisjoint(record)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return _UNKNOWN, True
