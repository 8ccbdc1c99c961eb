"""The event files of TensorBoard that a program has open: found among its file descriptors, and
read as they grow."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from tfapp.contract import metrics
from tfapp.contract.metrics import Measure, Point
from tfapp.course import Course
from tfapp.runner import event_files
from tfapp.runner.event_files import NoEventFileError
from tfapp.runner.progress import walk

_MOST_FILES = 16  # that are open in a program
_MOST_DESCRIPTORS = 4096  # of a program's processes, that a look goes through
_MOST_TAGS = 256
_EVENT_FILE = re.compile(r"\btfevents\b")


class OpenEventFiles:
    """The event files that the processes `pids()` have open for writing."""

    def __init__(self, pids: Callable[[], Iterable[int]]):
        self._pids = pids
        self._files: dict[tuple[int, int], _EventFile] = {}  # by device and inode
        self._any = False  # whether there was ever one
        # By name, the newest last: what it is, and the step and time that it is of.
        self._values: dict[str, tuple[Measure, int, float]] = {}
        self._courses: dict[str, Course[Measure]] = {}  # of the first tags

    def look(self) -> bool:
        """Reads what is new in the files. Returns whether there was anything. Files that the
        program has closed are read to their end."""
        open_now = set()
        for identity, path in self._find():
            open_now.add(identity)
            self._add(identity, path)
        anything = False
        for identity, file in tuple(self._files.items()):
            if self._take(file):
                anything = True
            elif identity not in open_now:
                self._files.pop(identity).close()
        return anything

    def add_written(self, folder: Path, since: float) -> None:
        """Adds the event files below `folder` that were written since `since` (seconds since 1970),
        if no open one was found: the program may have ended before a look, or its descriptors may
        be hidden from this process."""
        if self._any:
            return
        for path, found in walk(folder):
            named = _EVENT_FILE.search(os.path.basename(path)) is not None
            if named and stat.S_ISREG(found.st_mode) and found.st_mtime >= since:
                self._add((found.st_dev, found.st_ino), path)

    def _add(self, identity: tuple[int, int], path: str) -> None:
        if identity in self._files or len(self._files) >= _MOST_FILES:
            return
        file = _EventFile.open(path)
        if file is not None:
            self._files[identity], self._any = file, True

    def newest(self) -> list[tuple[str, Measure]]:
        """The last value of each tag, by "FOLDER/TAG" as TensorBoard shows it. The newest come
        first, and those of the same moment are sorted by name."""
        found = sorted(self._values.items(), key=lambda item: (-item[1][2], item[0]))
        return [(name, value) for name, (value, _, _) in found]

    def newest_step(self) -> tuple[str, int | None, float]:
        """The highest step, with its name, of the tags that count steps. "", None and 0 without
        any."""
        found = (
            (step, name, when)
            for name, (_, step, when) in self._values.items()
            if not _counts_epochs(name)
        )
        step, name, when = max(found, default=(None, "", 0.0))
        return name, step, when

    def newest_epoch(self) -> int | None:
        """The number of the last epoch, from 1 on."""
        found = (step for name, (_, step, _) in self._values.items() if _counts_epochs(name))
        return max((step + 1 for step in found), default=None)

    def courses(self) -> dict[str, tuple[Point, ...]]:
        return {name: course.points() for name, course in self._courses.items()}

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _find(self) -> Iterable[tuple[tuple[int, int], str]]:
        """(device and inode, a path to open it by) of each."""
        left = _MOST_DESCRIPTORS
        for pid in self._pids():
            folder = f"/proc/{pid}/fd"
            try:
                numbers = os.listdir(folder)[:left]
            except OSError:  # it has ended, or is not to be looked into
                continue
            left -= len(numbers)
            for number in numbers:
                path = f"{folder}/{number}"
                try:
                    if _EVENT_FILE.search(os.path.basename(os.readlink(path))) is None:
                        continue
                    # The link's own mode says how it was opened: proc(5).
                    if not os.lstat(path).st_mode & stat.S_IWUSR:
                        continue
                    found = os.stat(path)
                except OSError:  # closed by now
                    continue
                yield (found.st_dev, found.st_ino), path

    def _take(self, file: _EventFile) -> bool:
        before = file.offset
        for scalar in file.read():
            name = f"{file.folder}/{scalar.tag}"
            value = metrics.measure(scalar.value)
            if value is not None and len(name) <= metrics.MAX_NAME:
                self._values.pop(name, None)
                self._values[name] = (value, scalar.step, scalar.time)
                if name in self._courses or len(self._courses) < metrics.MAX_NAMES:
                    course = self._courses.setdefault(name, Course())
                    course.add(round(scalar.time, 1), scalar.step, value)
        while len(self._values) > _MOST_TAGS:
            del self._values[next(iter(self._values))]
        return file.offset != before


def _counts_epochs(name: str) -> bool:
    """Whether the steps of a tag are epochs, as Keras names them."""
    return name.rpartition("/")[2].startswith("epoch_")


class _EventFile:
    """One event file. This process keeps it open: its path may be valid only in another container,
    and the program may close it."""

    def __init__(self, descriptor: int, folder: str):
        self.folder = folder  # its name
        self._descriptor = descriptor
        self.offset = 0  # up to which it was read

    @classmethod
    def open(cls, path: str) -> _EventFile | None:
        """By its path, or a link of /proc/PID/fd, of which a container's need not have the path
        that it has here. None when it cannot be."""
        try:
            target = os.readlink(path) if os.path.islink(path) else path
            folder = os.path.basename(os.path.dirname(target))
            return cls(os.open(path, os.O_RDONLY | os.O_NONBLOCK), folder)
        except OSError:
            return None

    def read(self) -> list[event_files.Scalar]:
        """The new scalars since the last call; [] if the file cannot be read."""
        try:
            self.offset, scalars = event_files.read_new(self._descriptor, self.offset)
        except (NoEventFileError, OSError):
            return []
        return scalars

    def close(self) -> None:
        os.close(self._descriptor)
