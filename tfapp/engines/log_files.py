"""The log files of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfapp.contract.names import INSTANCE_FILE, RETURNED_FILE
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import LogFile
from tfapp.engines.folders import RunFolder
from tfapp.engines.returned_files import newest


def log_files(run: RunFolder, job_order: Sequence[str]) -> tuple[LogFile, ...]:
    """The existing logs: those of instances first, in `job_order`, older containers of an instance
    before newer ones; then those of coordinator and master."""
    own = (LogFile("coordinator", run.driver_log), LogFile("master", run.master_log))
    logs = _container_files(run, job_order, "{service}.log")
    return (*logs, *(log for log in own if log.path.exists()))


def returned_files(run: RunFolder, status: ApplicationStatus) -> tuple[LogFile, ...]:
    """See Engine.returned."""
    job_order = [instance.instance for instance in status.instances]
    return newest(_container_files(run, job_order, RETURNED_FILE), status)


def _container_files(run: RunFolder, job_order: Sequence[str], file: str) -> Iterator[LogFile]:
    """The files with this name in the log folders of containers."""
    order = {instance: number for number, instance in enumerate(job_order)}
    found = []
    for name in _list(run.logs):
        folder = run.logs / name
        service, _, number = name.rpartition("_")
        path = folder / file.format(service=service)
        instance = _instance_of(folder)
        if instance and path.exists():
            place = order.get(instance, len(order))
            found.append(((place, service, int(number)), LogFile(instance, path)))
    return (log for _, log in sorted(found, key=lambda item: item[0]))


def _instance_of(log_folder: Path) -> str:
    """The instance whose container has logged into this folder; "" if it belongs to no
    container."""
    try:
        return (log_folder / INSTANCE_FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _list(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
