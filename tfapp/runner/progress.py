"""Notices a program that hangs, as it was stopped or makes no progress, and whether one that failed
had made some."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tfapp import threads
from tfapp.contract.exit import Exit
from tfapp.runner.run_mode import Running

_MOST_ENTRIES = 10_000  # of a folder; what lies beyond them is not looked at
_LOOK_LIMIT = 2.0  # seconds for a look at what a program has saved
_EVENTS = "events.out.tfevents"  # begins the names of TensorBoard's files: no checkpoints


class StoppedDetector:
    """Looks from time to time whether a program was stopped (SIGSTOP): it lives, and nothing comes
    of it any more. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._since: dict[str, float] = {}  # when it was first seen stopped

    def look(self, stopped: Iterable[str]) -> Exit | None:
        """The Exit of a program that has a stopped process at two looks in a row; None for others.
        `stopped`: see Running.stopped."""
        now = self._clock()
        before = self._since
        self._since = {what: before.get(what, now) for what in stopped}
        for what in self._since:
            if what in before:
                text = f"{what} and did not go on within {now - before[what]:.1f} s"
                return Exit(None, None, "hang", text)
        return None


class Progress:
    """The progress of `program`: its output, and changes of `places`, files or folders that need
    not exist yet. `limit`: seconds without progress that are allowed. `clock` gives seconds."""

    def __init__(
        self,
        program: Running,
        places: Iterable[Path],
        limit: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._program = program
        self._places = tuple(places)
        self._limit = limit
        self._clock = clock
        self._written = program.written
        self._marked = self._mark()
        self._since = clock()

    def look(self) -> Exit | None:
        """The Exit of a program that has shown no progress for too long; None for others."""
        now, written = self._clock(), self._program.written
        marked = self._marked if written > self._written else self._mark()
        if (written, marked) != (self._written, self._marked):
            self._written, self._marked, self._since = written, marked, now
        if now - self._since < self._limit:
            return None
        text = (
            f"for {self._limit:g} s it wrote nothing, and nothing changed in its checkpoint folder "
            "and its TFAPP_PROGRESS_FILE (site.global.progress.timeout)"
        )
        return Exit(None, None, "hang", text)

    def _mark(self) -> int:
        """Another number after any change of the places."""
        return sum(found.st_mtime_ns for place in self._places for _, found in walk(place))


def watch(
    program: Running,
    places: Iterable[Path],
    limit: float,
    interval: float,
    found: Callable[[Exit], None],
) -> None:
    """Looks every `interval` seconds as long as `program` lives, in a thread of its own: a shared
    folder may be slow. `found` is called once, or not."""

    def run() -> None:
        progress, pause = Progress(program, places, limit), threading.Event()
        while not pause.wait(interval) and program.alive:
            exit = progress.look()
            if exit is not None and program.alive:
                found(exit)
                return

    threads.keep("tfapp-progress", run)


class Saved:
    """The files that a program saves from now on in `places`, files or folders that need not exist
    yet."""

    def __init__(self, places: Iterable[Path]):
        self._places = tuple(places)
        self._before = self._look_in_time()

    def anything(self) -> bool:
        """Whether there is anything new; True where that cannot be seen."""
        return self._before is None or self._look_in_time() != self._before

    def _look_in_time(self) -> int | None:
        """None where the look takes too long: a folder of a server that does not answer must hold
        up neither the wait for a program nor its report."""
        found: list[int | None] = []
        with contextlib.suppress(OSError):  # no thread: it cannot be seen
            looking = threads.start("tfapp-saved", lambda: found.append(self._look()))
            looking.join(_LOOK_LIMIT)
        return found[0] if found else None

    def _look(self) -> int | None:
        """Another number after any change of a file that is not TensorBoard's, None where there
        are too many to look at."""
        times = 0
        for place in self._places:
            for count, (path, found) in enumerate(walk(place), 1):
                if count == _MOST_ENTRIES:
                    return None
                if stat.S_ISREG(found.st_mode) and not os.path.basename(path).startswith(_EVENTS):
                    times += found.st_mtime_ns
        return times


def walk(place: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files and folders at and below `place`, at most _MOST_ENTRIES. Links are not followed."""
    left, unvisited = _MOST_ENTRIES, [os.fspath(place)]
    while unvisited and left:
        left -= 1
        path = unvisited.pop()
        try:
            yield path, os.stat(path)
            with os.scandir(path) as entries:
                unvisited += (entry.path for entry in entries if not entry.is_symlink())
        except OSError:  # a file, which has no entries, or gone again
            continue
