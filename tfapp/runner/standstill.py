"""Notices a program that was stopped (SIGSTOP): it lives, and nothing comes of it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfapp.contract import Exit
from tfapp.runner.process_tree import Process

_STOPPED = "T"  # a debugger's hold is "t", and a person's doing


class Standstill:
    """Looks at the processes of a program from time to time. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._since: dict[int, float] = {}  # pid -> when it was first seen stopped

    def look(self, processes: Iterable[Process]) -> Exit | None:
        """How the program has ended, in effect, when one of its processes was stopped at the
        last look too."""
        now = self._clock()
        stopped = [process.pid for process in processes if process.state == _STOPPED]
        before = self._since
        self._since = {pid: before.get(pid, now) for pid in stopped}
        for pid in stopped:
            if pid in before:
                text = f"process {pid} was stopped (SIGSTOP) and did not go on"
                return Exit(None, None, "hang", f"{text} within {now - before[pid]:.1f} s")
        return None
