"""When the lines of a log were written. Programs' output is kept as it is, so the times are in a
file beside it, which travels and is deleted as the log is.

Each line of that file is "OFFSET SECONDS": the bytes of the log from OFFSET on, up to the next
entry's, were written at SECONDS since 1970 or up to RESOLUTION later.
"""

from __future__ import annotations

import bisect
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

RESOLUTION = 0.1  # seconds between two entries: they grow by 260 bytes in a second at most


def times_path(log: Path) -> Path:
    """The file with the times of a log."""
    return log.with_name(f"{log.name}.times")


class Log:
    """A log that grows at the end of the file descriptor `descriptor`. Where that is a file, its
    times are kept; an engine that reads a pipe keeps them itself."""

    def __init__(self, descriptor: int, clock: Callable[[], float] = time.time):
        self._descriptor = descriptor
        log = _file_of(descriptor)
        self._times = None if log is None else TimesWriter(log, clock)

    def write(self, data: bytes) -> None:
        """Writes all of `data`. What the log does not take (a full disk) is lost."""
        view = memoryview(data)
        try:
            if self._times is not None:
                self._times.note(os.fstat(self._descriptor).st_size)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return


def _file_of(descriptor: int) -> Path | None:
    """The file that is open there, unless it is none that can be found by its name."""
    try:
        opened, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
        named = stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, path.stat())
    except OSError:
        return None
    return path if named else None


class TimesWriter:
    """Notes the times of a log. An error of their file is ignored: a log without is one all the
    same."""

    def __init__(self, log: Path, clock: Callable[[], float] = time.time):
        self._path = times_path(log)
        self._clock = clock
        self._last = 0.0

    def note(self, offset: int, at: float | None = None) -> None:
        """What the log gets from `offset` on is written now, or at `at`, in seconds since 1970."""
        moment = self._clock() if at is None else at
        # A clock that was set back counts as well.
        if abs(moment - self._last) < RESOLUTION:
            return
        self._last = moment
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, f"{offset} {moment:.2f}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


class Times:
    """The times of a log, as they are known by now."""

    def __init__(self, log: Path):
        self._path = times_path(log)
        self._read = 0  # bytes
        self._offsets: list[int] = []
        self._moments: list[float] = []

    def at(self, offset: int) -> float | None:
        """When the byte at `offset` was written, in seconds since 1970; None: not known."""
        place = bisect.bisect_right(self._offsets, offset) - 1
        return self._moments[max(place, 0)] if self._moments else None

    def since(self, moment: float) -> int | None:
        """Where the first that was written at `moment` or later begins; None where nothing was."""
        later = (o for o, at in zip(self._offsets, self._moments) if at >= moment)
        return next(later, None)

    def update(self) -> bool:
        """Reads what has been noted since the last call. Whether anything is known now."""
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
            offset, _, moment = line.partition(b" ")
            self._add(int(offset), float(moment))

    def _add(self, offset: int, moment: float) -> None:
        # A copy that was begun anew has entries of before behind those that count.
        while self._offsets and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._moments.pop()
        self._offsets.append(offset)
        self._moments.append(moment)
