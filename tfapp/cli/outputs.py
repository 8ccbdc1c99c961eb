"""Log files of an application: which one to show, and what is new in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tfapp.contract.log_lines import OWN_LINE
from tfapp.contract.status import ApplicationStatus, InstanceStatus
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


class OwnLines:
    """Tells tfapp's own lines (`log_lines.OWN_LINE`) from a program's in a log that comes in
    pieces. It holds back only what may become the beginning of such a line."""

    _BEGINNING = OWN_LINE.encode()

    def __init__(self) -> None:
        self._held = b""  # of a line of which it is not known yet whose it is
        self._own: bool | None = None  # whose the line is that has begun

    def split(self, piece: bytes) -> Iterator[tuple[bool, bytes]]:
        """(whether it is tfapp's own, part), in the order of the log."""
        for part in _lines(piece):
            if self._own is None:
                part = self._held + part
                self._held = b""
                if len(part) < len(self._BEGINNING) and self._BEGINNING.startswith(part):
                    self._held = part
                    continue
                self._own = part.startswith(self._BEGINNING)
            yield self._own, part
            if part.endswith(b"\n"):
                self._own = None

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held


def _lines(piece: bytes) -> list[bytes]:
    """With their ends, which are newlines and nothing else."""
    *whole, last = piece.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


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
