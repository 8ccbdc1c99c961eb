"""Processes by what the kernel says of them: who lives, who descends from whom, who belongs to
which container. Linux's /proc.

A number alone is no process: numbers are reused. A `Process` carries its start time too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tfapp.contract.container import ENV_GUARD

PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process. `started`: clock ticks since boot; `boot`: the kernel's id of that boot, ""
    where it does not matter."""

    pid: int
    started: int
    boot: str = ""


@dataclasses.dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    session: int
    terminal: int
    started: int


def boot_id() -> str:
    """Changes with each boot of this machine, "" when the kernel does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def session(pid: int) -> int:
    """The session that it belongs to, 0 when it is gone."""
    stat = _stat(pid)
    return 0 if stat is None else stat.session


def identify(pid: int) -> Process | None:
    """The living process that has this number now, or None."""
    stat = _stat(pid)
    return None if stat is None or stat.state in "ZX" else Process(pid, stat.started, boot_id())


def is_alive(process: Process) -> bool:
    """Whether it still runs. One that has ended and was not waited for counts as dead."""
    if process.boot and process.boot != boot_id():
        return False
    stat = _stat(process.pid)
    return stat is not None and stat.started == process.started and stat.state not in "ZX"


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


def descendants(root: int) -> list[Process]:
    """All processes below `root`, without itself, living ones only."""
    stats = _all_stats()
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found, stack = [], list(children.get(root, ()))
    while stack:
        pid = stack.pop()
        stack.extend(children.get(pid, ()))
        if stats[pid].state not in "ZX":
            found.append(Process(pid, stats[pid].started))
    return found


def children_of_this_process() -> set[int]:
    """The pids of this process's children, the dead ones that nobody waited for included."""
    listed = _listed_children()
    if listed is not None:
        return listed
    me = os.getpid()
    return {pid for pid, stat in _all_stats().items() if stat.parent == me}


def _listed_children() -> set[int] | None:
    """None from a kernel without CONFIG_PROC_CHILDREN."""
    texts = []
    for path in PROC.glob("self/task/*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            texts.append(path.read_text())
    return {int(pid) for text in texts for pid in text.split()} if texts else None


def with_environment(matches: Callable[[dict[bytes, bytes]], bool]) -> list[Process]:
    """All living processes of this user whose environment at their start `matches`."""
    found = []
    for pid in _pids():
        stat = _stat(pid)
        if stat and stat.state not in "ZX" and pid != os.getpid() and matches(environment(pid)):
            found.append(Process(pid, stat.started))
    return found


def working_under(folder: str) -> list[Process]:
    """All living processes of this user whose working directory is `folder` or below it, but
    not what runs in a terminal: that is a person who looks around there."""
    found = []
    for pid in _pids():
        stat = _stat(pid)
        if not stat or stat.state in "ZX" or stat.terminal or pid == os.getpid():
            continue
        with contextlib.suppress(OSError):  # ended, or another user's
            if Path(os.readlink(PROC / str(pid) / "cwd")).is_relative_to(folder):
                found.append(Process(pid, stat.started))
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
        found = list(find())
        if not found or time.monotonic() >= end:
            return found
        for process in found:
            send(process, signal.SIGKILL)
        for process in found:
            wait_for_exit(process, end - time.monotonic())


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _all_stats() -> dict[int, _Stat]:
    found = ((pid, _stat(pid)) for pid in _pids())
    return {pid: stat for pid, stat in found if stat is not None}


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The second field, the name in parentheses, may contain anything.
    fields = data[data.rindex(b")") + 2 :].split()
    parent, session, terminal, started = (int(fields[i]) for i in (1, 3, 4, 19))
    return _Stat(fields[0].decode(), parent, session, terminal, started)
