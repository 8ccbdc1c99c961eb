"""Processes by what the kernel says of them: which live, which descend from which, which belong to
a container. Linux's /proc, read here alone.

A number alone names no process: numbers are used again. A `Process` carries its start time too.
Travels into containers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tfapp.contract.names import ENV_GUARD
from tfapp.frozen import frozen

PROC = Path("/proc")
KILL_LIMIT = 30.0  # seconds that SIGKILL may take to work

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_POLL = 0.01  # seconds between looks at processes that were sent SIGKILL
_STOPPED = "T"  # a debugger's hold is "t", and a person's doing


@frozen
class Process:
    """One process. `started`: clock ticks since boot; `boot`: the kernel's id of that boot, ""
    where it does not matter."""

    pid: int
    started: int
    boot: str = ""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that tfapp reads. `state` is one letter, as ps(1) shows it."""

    pid: int
    state: str
    parent: int
    session: int
    terminal: int = 0
    started: int = 0

    @property
    def dead(self) -> bool:
        """Whether it has ended, and only its exit status is left."""
        return self.state in "ZX"


# ---- One process ------------------------------------------------------------------------------


def stat(pid: int) -> Stat | None:
    """None when there is no process of this number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The second field, the name in parentheses, may contain anything.
    fields = data[data.rindex(b")") + 2 :].split()
    parent, session, terminal, started = (int(fields[i]) for i in (1, 3, 4, 19))
    return Stat(pid, fields[0].decode(), parent, session, terminal, started)


def boot_id() -> str:
    """Changes with each boot of this machine, "" when the kernel does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def session(pid: int) -> int:
    """The session that it belongs to, 0 when it is gone."""
    found = stat(pid)
    return 0 if found is None else found.session


def identify(pid: int) -> Process | None:
    """The living process that has this number now, or None."""
    found = stat(pid)
    return None if found is None or found.dead else Process(pid, found.started, boot_id())


def is_alive(process: Process) -> bool:
    """Whether it still runs. One that has ended and was not waited for counts as dead."""
    if process.boot and process.boot != boot_id():
        return False
    found = stat(process.pid)
    return found is not None and found.started == process.started and not found.dead


def wait_for_exit(process: Process, timeout: float) -> bool:
    """Waits at most `timeout` seconds, and says whether it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return _poll_for_exit(process, timeout)
    try:
        if is_alive(process):  # the number may have been reused before the descriptor was opened
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            poller.poll(max(timeout, 0.0) * 1000)
    finally:
        os.close(descriptor)
    return not is_alive(process)


def _poll_for_exit(process: Process, timeout: float) -> bool:
    """For kernels before 5.3 and processes that are gone."""
    end = time.monotonic() + timeout
    while is_alive(process):
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def send(process: Process, number: int) -> None:
    """Signals it if it is still the same process."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


# ---- Families ---------------------------------------------------------------------------------


def all_processes() -> Iterator[Stat]:
    """All that can be seen."""
    return filter(None, map(stat, _pids()))


def tree(root: int) -> tuple[Stat, ...]:
    """The process `root` and its descendants, zombies included; () when it is not there."""
    children: dict[int, list[Stat]] = {}
    unvisited = []
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            unvisited.append(process)
    found = []
    while unvisited:
        process = unvisited.pop()
        found.append(process)
        unvisited += children.get(process.pid, ())
    return tuple(found)


def descendants(root: int) -> list[Process]:
    """All processes below `root`, without itself, living ones only."""
    return [Process(p.pid, p.started) for p in tree(root) if p.pid != root and not p.dead]


def children_of_this_process() -> set[int]:
    """The pids of this process's children, dead ones that nothing has waited for included."""
    listed = _listed_children()
    if listed is not None:
        return listed
    me = os.getpid()
    return {process.pid for process in all_processes() if process.parent == me}


def _listed_children() -> set[int] | None:
    """None from a kernel without CONFIG_PROC_CHILDREN."""
    texts = []
    for path in PROC.glob("self/task/*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            texts.append(path.read_text())
    return {int(pid) for text in texts for pid in text.split()} if texts else None


# ---- Orphans: what a program has started, whichever process is its parent now -----------------
#
# A subreaper inherits the orphans among its descendants, also those that were forked twice to get
# away. Programs and containers are started in a session of their own; so whatever they have left
# behind is a descendant of the subreaper in another session than the subreaper's.


def adopt_orphans() -> None:
    """Makes this process the new parent of orphans among its descendants. OSError if the
    kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def left_behind() -> tuple[Stat, ...]:
    """Descendants of this process in other sessions than its own, zombies included.

    /proc is read process by process: one that forks and ends meanwhile hides its child from this
    look. So nothing is gone for sure before a second look finds nothing either."""
    session = os.getsid(0)
    return tuple(process for process in tree(os.getpid()) if process.session != session)


def stopped(processes: Iterable[Stat]) -> tuple[str, ...]:
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
            with contextlib.suppress(ChildProcessError):  # somebody else was faster
                os.waitpid(process.pid, os.WNOHANG)


def _alive_left_behind() -> list[int]:
    return [process.pid for process in left_behind() if not process.dead]


def kill_left_behind(
    limit: float, spare: int = 0, clock: Callable[[], float] = time.monotonic
) -> tuple[int, ...]:
    """Kills everything that is left behind, and what it forks meanwhile, and waits at most
    `limit` seconds until it is gone; with 0 it does not wait. Returns the pids that were there
    at the last look, normally none: a process in uninterruptible sleep outlives SIGKILL until
    its I/O is over. `spare` as for `reap`: it is killed, but not reaped."""
    end = clock() + limit
    while True:
        reap(spare)
        alive = _alive_left_behind() or _alive_left_behind()
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not alive:
            reap(spare)
            return ()
        if clock() >= end:
            return tuple(alive)
        time.sleep(_POLL)


# ---- What belongs together --------------------------------------------------------------------


def with_environment(matches: Callable[[dict[bytes, bytes]], bool]) -> list[Process]:
    """All living processes of this user whose environment at their start `matches`."""
    return [Process(p.pid, p.started) for p in _others() if matches(environment(p.pid))]


def working_under(folder: str) -> list[Process]:
    """All living processes of this user whose working directory is `folder` or below it, but not
    those that run in a terminal: they are a person's."""
    found = []
    for process in _others():
        with contextlib.suppress(OSError):  # ended, or another user's
            place = Path(os.readlink(PROC / str(process.pid) / "cwd"))
            if not process.terminal and place.is_relative_to(folder):
                found.append(Process(process.pid, process.started))
    return found


def environment(pid: int) -> dict[bytes, bytes]:
    """A process's environment when it started; {} when it may not be read."""
    try:
        data = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def is_guard(process: Process) -> bool:
    """Whether it clears up after a runner, and will end by itself."""
    return os.fsencode(ENV_GUARD) in environment(process.pid)


def kill_all(find: Callable[[], Iterable[Process]], timeout: float) -> list[Process]:
    """SIGKILLs what `find` finds until it finds nothing, for processes that are not this one's
    children. Returns what is still alive after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        found = list(find()) or list(find())  # see left_behind
        if not found or time.monotonic() >= end:
            return found
        for process in found:
            send(process, signal.SIGKILL)
        for process in found:
            wait_for_exit(process, end - time.monotonic())


def _others() -> Iterator[Stat]:
    """All living processes but this one."""
    me = os.getpid()
    return (process for process in all_processes() if process.pid != me and not process.dead)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]
