"""Measures what a program uses: processor, memory, bytes that it reads and writes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from tfapp import processes
from tfapp.contract.usage import Usage

_TICK = os.sysconf("SC_CLK_TCK")


class UsageMeter:
    """The use of one program, since it was made. `pids`: the processes of the program. `vcores` and
    `memory` (bytes): what its container has asked for."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        vcores: int,
        memory: int,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._pids, self._vcores, self._limit, self._clock = pids, vcores, memory, clock
        self._began = self._looked = clock()
        self._seen: dict[tuple[int, int], processes.Used] = {}  # by pid and start
        self._ticks = self._read = self._written = self._peak = 0

    def look(self) -> Usage | None:
        """The use up to now; None where no process can be looked at."""
        now, before = self._clock(), self._seen
        found = {(pid, used.started): used for pid in self._pids() if (used := processes.used(pid))}
        if not found:
            return None
        # What a process has used before it was seen first is the program's: it began with it.
        ticks = read = written = 0
        for one, used in found.items():
            last = before.get(one, processes.Used(0, 0, 0, 0, 0))
            ticks += used.ticks - last.ticks
            read += max(used.read - last.read, 0)
            written += max(used.written - last.written, 0)
        # The time of a child that has ended comes to its parent, which had counted none of it.
        ticks -= sum(used.ticks for one, used in before.items() if one not in found)
        ticks = max(ticks, 0)
        self._ticks, self._read = self._ticks + ticks, self._read + read
        self._written += written
        memory = sum(used.memory for used in found.values())
        self._peak = max(self._peak, memory)
        seconds, since = now - self._began, now - self._looked
        self._looked, self._seen = now, found
        return Usage(
            seconds=round(seconds, 1),
            cpu=round(ticks / _TICK / since, 2) if since > 0 else None,
            cpu_mean=round(self._ticks / _TICK / seconds, 2) if seconds > 0 else None,
            vcores=self._vcores,
            memory=memory,
            memory_peak=self._peak,
            memory_limit=self._limit,
            read=self._read,
            written=self._written,
        )
