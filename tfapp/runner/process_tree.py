"""All processes that a program has started, whoever their parent is now, and their death.

The runner is a subreaper: a process whose parent has ended becomes the runner's child, also one
that was forked twice to get away. So everything that a program has left behind is a descendant
of the runner, in another session than the runner's own (programs are started in a new one).
Linux only: reads /proc.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
KILL_LIMIT = 30.0  # seconds that SIGKILL may take to work
_POLL = 0.01  # seconds between looks at processes that were sent SIGKILL
_STOPPED = "T"  # a debugger's hold is "t", and a person's doing


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    state: str  # one letter, as ps(1) shows it; Z: a zombie


def adopt_orphans() -> None:
    """Makes this process the new parent of orphans among its descendants. OSError if the
    kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def processes() -> Iterator[Process]:
    """All processes that can be seen."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:  # it has ended since
            continue
        # The name of the program, in parentheses, may hold anything.
        fields = text[text.rindex(b")") + 2 :].split()
        yield Process(int(name), int(fields[1]), int(fields[3]), fields[0].decode())


def tree(root: int) -> tuple[Process, ...]:
    """The process `root` and its descendants, zombies included; () when it is not there."""
    children: dict[int, list[Process]] = {}
    unvisited = []
    for process in processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            unvisited.append(process)
    found = []
    while unvisited:
        process = unvisited.pop()
        found.append(process)
        unvisited += children.get(process.pid, ())
    return tuple(found)


def left_behind() -> tuple[Process, ...]:
    """Descendants of this process in other sessions than its own, zombies included."""
    session = os.getsid(0)
    return tuple(process for process in tree(os.getpid()) if process.session != session)


def stopped(processes: Iterable[Process]) -> tuple[str, ...]:
    """Those that were sent SIGSTOP, as `Running.stopped` says it."""
    return tuple(
        f"process {process.pid} was stopped (SIGSTOP)"
        for process in processes
        if process.state == _STOPPED
    )


def reap(spare: int = 0) -> None:
    """Takes the exit status of dead orphans off the process table. `spare`: the pid of a child
    for which somebody else waits."""
    me = os.getpid()
    for process in left_behind():
        if process.state == "Z" and process.parent == me and process.pid != spare:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else was faster
                continue


def kill_all(
    limit: float, spare: int = 0, clock: Callable[[], float] = time.monotonic
) -> tuple[int, ...]:
    """Kills everything that is left behind, and what it forks meanwhile, and waits at most
    `limit` seconds until it is gone; with 0 it does not wait. Returns the pids that were there
    at the last look, normally none: a process in uninterruptible sleep outlives SIGKILL until
    its I/O is over. `spare` as for `reap`: it is killed, but not reaped."""
    end = clock() + limit
    while True:
        reap(spare)
        alive = [process.pid for process in left_behind() if process.state not in "ZX"]
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not alive:
            reap(spare)
            return ()
        if clock() >= end:
            return tuple(alive)
        time.sleep(_POLL)
