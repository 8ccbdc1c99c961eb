"""Selects, from the records of containers, the one with an instance's return value."""

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
    """The valid record of each instance: the one of its newest generation. None if the function has
    returned None, if `status` knows a later generation, or if the program has failed afterwards.
    `records` of an instance are in the order of its containers. Nothing is decoded."""
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
    """(generation, whether the record has a value or an error). The generation of a damaged record
    is unknown; the decoder will report it."""
    try:
        record = json.loads(path.read_bytes())
        return int(record["generation"]), not _OUTCOMES.isdisjoint(record)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return _UNKNOWN, True
