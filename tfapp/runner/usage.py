"""Measures what a program uses: processor, memory, bytes that it reads and writes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from tfapp import processes
from tfapp.contract.usage import Usage
from tfapp.runner import cgroup
from tfapp.runner.gpu_usage import GpuMeter

_TICK = os.sysconf("SC_CLK_TCK")


class UsageMeter:
    """The use of one program, since it was made. `pids`: the processes of the program. `vcores`,
    `memory` (bytes) and `gpus`: what its container has asked for. `group`: the control group of its
    container, None where that is not for it alone."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        vcores: int,
        memory: int,
        gpus: int = 0,
        clock: Callable[[], float] = time.monotonic,
        group: Callable[[], cgroup.Group | None] = lambda: None,
    ):
        self._group = group
        self._pids, self._vcores, self._limit, self._clock = pids, vcores, memory, clock
        self._gpus, self._devices = gpus, GpuMeter(os.environ) if gpus else None
        self._gpu_looks: list[float] = [0, 0.0]  # how many, and the sum of what was busy
        self._gpu_peak = 0
        self._began = self._looked = clock()
        self._seen: dict[tuple[int, int], processes.Used] = {}  # by pid and start
        self._spent = 0.0  # seconds of processors
        self._read = self._written = self._peak = 0

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
        # What a child has used that has ended comes to its parent, which had counted none of it.
        for used in (used for one, used in before.items() if one not in found):
            ticks, read, written = ticks - used.ticks, read - used.read, written - used.written
        self._read, self._written = self._read + max(read, 0), self._written + max(written, 0)
        spent, memory = max(ticks, 0) / _TICK, sum(used.memory for used in found.values())
        group = self._group()
        if group is not None:
            counted = group.used()
            memory = memory if counted.memory is None else counted.memory
            if counted.seconds is not None:
                spent = max(counted.seconds - self._spent, 0.0)
        self._spent += spent
        self._peak = max(self._peak, memory)
        seconds, since = now - self._began, now - self._looked
        self._looked, self._seen = now, found
        return Usage(
            seconds=round(seconds, 1),
            cpu=round(spent / since, 2) if since > 0 else None,
            cpu_mean=round(self._spent / seconds, 2) if seconds > 0 else None,
            vcores=self._vcores,
            memory=memory,
            memory_peak=self._peak,
            memory_limit=self._limit,
            read=self._read,
            written=self._written,
            **self._of_gpus(),
        )

    def _of_gpus(self) -> dict[str, Any]:
        found = self._devices.look() if self._devices is not None else None
        if found is None:
            return {}
        self._gpu_peak = max(self._gpu_peak, found.memory)
        if found.busy is not None:
            self._gpu_looks = [self._gpu_looks[0] + 1, self._gpu_looks[1] + found.busy]
        looks, busy = self._gpu_looks
        return {
            "gpu": None if found.busy is None else round(found.busy, 2),
            "gpu_mean": round(busy / looks, 2) if looks else None,
            "gpus": self._gpus,
            "gpu_memory": found.memory,
            "gpu_memory_peak": self._gpu_peak,
            "gpu_memory_limit": found.memory_limit,
        }
