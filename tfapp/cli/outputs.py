"""Log files of an application: which one to show, and what is new in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from tfapp.contract import ApplicationStatus, InstanceStatus
from tfapp.engines.base import LogFile

_CHUNK = 1 << 16


class Tail:
    """A log file that grows: `read_new` gives what was written since the last call."""

    def __init__(self, path: Path):
        self.path = path
        self._file: BinaryIO | None = None

    def read_new(self) -> Iterable[bytes]:
        """What is new, in pieces; nothing while the file does not exist."""
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except FileNotFoundError:
                return
        while piece := self._file.read(_CHUNK):
            yield piece

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class LineTail:
    """A `Tail` that gives whole lines, for output that is mixed with another log's."""

    def __init__(self, path: Path):
        self._tail = Tail(path)
        self._rest = b""

    def read_lines(self, final: bool = False) -> list[bytes]:
        """The new whole lines, each with its newline. `final`: an unfinished last one too."""
        data = self._rest + b"".join(self._tail.read_new())
        whole, newline, self._rest = data.rpartition(b"\n")
        lines = (whole + newline).splitlines(keepends=True)
        if final and self._rest:
            lines.append(self._rest + b"\n")
            self._rest = b""
        return lines

    def close(self) -> None:
        """Closes the file."""
        self._tail.close()


def primary_instance(status: ApplicationStatus) -> InstanceStatus | None:
    """The instance whose output stands for the application's: the chief, else the first worker,
    else the first of all. None while no instance is known."""
    for role in ("chief", "worker"):
        for instance in status.instances:
            if instance.role == role:
                return instance
    return status.instances[0] if status.instances else None


def select_logs(logs: Sequence[LogFile], what: str) -> tuple[LogFile, ...]:
    """The logs that `what` means: "worker/1" one instance's, "worker" a component's, "" all."""
    return tuple(log for log in logs if not what or log.instance == what or _component(log) == what)


def _component(log: LogFile) -> str:
    return log.instance.rpartition("/")[0]
