"""The files of containers: of which instance each is, the order of logs, and the one with an
instance's return value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.names import FAILED, INSTANCE_FILE
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import LogFile

# What `tfapp.program.returned` writes where a function returned something, or tried to.
_OUTCOMES = {"value", "file", "error"}
_UNKNOWN = 0  # as a generation


def container_files(folders: Iterable[Path], name: str = "") -> Iterator[LogFile]:
    """The existing files called `name` in the log folders of containers; "" for their logs. A
    folder is left out if no runner has recorded there of which instance it is."""
    for folder in folders:
        try:
            instance = (folder / INSTANCE_FILE).read_text(errors="replace").strip()
        except OSError:
            continue
        path = folder / (name or f"{instance.rpartition('/')[0]}.log")
        if instance and path.exists():
            yield LogFile(instance, path)


def log_order(
    job_order: Sequence[str], container: Callable[[Any], str] = lambda log: str(log.path)
) -> Callable[[Any], tuple[Any, ...]]:
    """A key by which logs are sorted: those of instances first, in `job_order` and then by name,
    older containers of an instance before newer ones; then those of coordinator and master.
    `container`: the name of a log's container, which has its number."""
    places = {instance: place for place, instance in enumerate(job_order)}

    def key(log: Any) -> tuple[Any, ...]:
        place = places.get(log.instance, len(places))
        return "/" not in log.instance, place, _natural(log.instance), _natural(container(log))

    return key


def _natural(name: str) -> list[str | int]:
    """`name` for sorting: worker/2 is before worker/10."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", name)]


def newest_returned(records: Iterable[LogFile], status: ApplicationStatus) -> tuple[LogFile, ...]:
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
