"""Notices a program that lives and does not get on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tfapp.contract.exit import Exit
from tfapp.runner.run_mode import Running

_MOST_ENTRIES = 10_000  # of a folder; what lies beyond them is not looked at


class Progress:
    """What `program` shows: its output, and changes of `places`, files or folders that need not
    be there yet. `limit`: seconds that it may show nothing. `clock` gives seconds."""

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
        """How the program has ended, in effect, when it has shown nothing for too long."""
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
        return sum(time for place in self._places for time in _times(place))


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

    threading.Thread(target=run, name="tfapp-progress", daemon=True).start()


def _times(place: Path) -> Iterator[int]:
    left, unvisited = _MOST_ENTRIES, [os.fspath(place)]
    while unvisited and left:
        left -= 1
        path = unvisited.pop()
        try:
            yield os.stat(path).st_mtime_ns
            with os.scandir(path) as entries:
                unvisited += (entry.path for entry in entries if not entry.is_symlink())
        except OSError:  # a file, which has no entries, or gone again
            continue
