"""The logs of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tfapp.contract.container import INSTANCE_FILE
from tfapp.engines.base import LogFile
from tfapp.engines.local.layout import RunFolder


def log_files(run: RunFolder, job_order: Sequence[str]) -> tuple[LogFile, ...]:
    """Those that exist now: instances first, as in `job_order`, an instance's older containers
    before its newer ones; then the coordinator's and the master's."""
    order = {instance: number for number, instance in enumerate(job_order)}
    found = sorted(
        _container_logs(run), key=lambda item: (order.get(item[0].instance, len(order)), item[1])
    )
    own = (LogFile("coordinator", run.driver_log), LogFile("master", run.master_log))
    return (*(log for log, _ in found), *(log for log in own if log.path.exists()))


def _container_logs(run: RunFolder) -> list[tuple[LogFile, tuple[str, int]]]:
    """Each with its service and its container's number."""
    found = []
    for name in _list(run.logs):
        folder = run.logs / name
        service, _, number = name.rpartition("_")
        log = folder / f"{service}.log"
        instance = _instance_of(folder)
        if instance and log.exists():
            found.append((LogFile(instance, log), (service, int(number))))
    return found


def _instance_of(log_folder: Path) -> str:
    """The instance whose container logged into this folder, "" when it was no container's."""
    try:
        return (log_folder / INSTANCE_FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _list(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
