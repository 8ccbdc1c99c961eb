"""The times at which lines of a log were written. Logs are stored unchanged, so the times are in a
second file, which is copied and deleted with the log.

Each line of that file is "OFFSET SECONDS": the bytes from OFFSET up to the next entry were written
between SECONDS since 1970 and RESOLUTION seconds later.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

RESOLUTION = 0.1  # seconds between two entries: they grow by 260 bytes in a second at most
_ENTRY = re.compile(rb"(\d{1,18}) (\d{1,12}\.\d\d)")


def times_path(log: Path) -> Path:
    return log.with_name(f"{log.name}.times")


class Log:
    """A log that is written to the file descriptor `descriptor`. If it is a file, its times are
    recorded. If it is a pipe, the engine that reads it records them."""

    def __init__(self, descriptor: int, clock: Callable[[], float] = time.time):
        self._descriptor = descriptor
        log = _file_of(descriptor)
        self._times = None if log is None else TimesWriter(log, clock)

    def write(self, data: bytes) -> None:
        """Writes all of `data`. What cannot be written (full disk) is lost."""
        view = memoryview(data)
        try:
            if self._times is not None:
                self._times.note(os.fstat(self._descriptor).st_size)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return


def _file_of(descriptor: int) -> Path | None:
    """The path of the open file; None if it is no file or cannot be found by its path."""
    try:
        opened, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
        named = stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, path.stat())
    except OSError:
        return None
    return path if named else None


class TimesWriter:
    """Records the times of a log. Errors of the file are ignored: a log can be used without
    times."""

    def __init__(self, log: Path, clock: Callable[[], float] = time.time):
        self._path = times_path(log)
        self._clock = clock
        self._last = 0.0

    def note(self, offset: int, at: float | None = None) -> None:
        """Records that the bytes from `offset` on are written now, or at `at` (seconds since
        1970)."""
        moment = self._clock() if at is None else at
        # A clock that was set back counts as well.
        if abs(moment - self._last) < RESOLUTION:
            return
        self._last = moment
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                # Half an entry of before, when the disk was full, is one that nobody reads.
                cut_off = size and os.pread(descriptor, 1, size - 1) != b"\n"
                entry = f"{offset} {moment:.2f}\n".encode()
                os.write(descriptor, b"\n" + entry if cut_off else entry)
            finally:
                os.close(descriptor)
        except OSError:
            return


class Times:
    def __init__(self, log: Path):
        self._path = times_path(log)
        self._read = 0  # bytes
        self._offsets: list[int] = []
        self._moments: list[float] = []

    def at(self, offset: int) -> float | None:
        """The time at which the byte at `offset` was written, in seconds since 1970; None if
        unknown."""
        place = bisect.bisect_right(self._offsets, offset) - 1
        return self._moments[max(place, 0)] if self._moments else None

    def since(self, moment: float) -> int | None:
        """The offset of the first byte that was written at `moment` or later; None if there is
        none."""
        later = (o for o, at in zip(self._offsets, self._moments) if at >= moment)
        return next(later, None)

    def update(self) -> bool:
        """Reads new entries. Returns whether any times are known."""
        self._read_new()
        return bool(self._moments)

    def _read_new(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            entry = _ENTRY.fullmatch(line)
            if entry is not None:
                self._add(int(entry[1]), float(entry[2]))

    def _add(self, offset: int, moment: float) -> None:
        # A copy that was begun anew has entries of before behind those that count.
        while self._offsets and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._moments.pop()
        self._offsets.append(offset)
        self._moments.append(moment)
