"""Who a container belongs to: names for processes that cannot be taken for another's.

A number alone names no process: numbers are used again, after each boot and in each pid
namespace. Linux only: reads /proc.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

LABEL = "tfapp"  # on every container, with the run mode's version
LABEL_RUNNER = "tfapp.runner"  # runner_name of the runner: its end is the container's

_PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of this boot. `started`: clock ticks since then."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether it is still there; one that has ended and was not waited for is not."""
        found = _stat(self.pid)
        return found is not None and found[1] == self.started and found[0] not in "ZX"

    def signal(self, number: int) -> None:
        """Nothing happens when it has ended."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)


def find(pid: int) -> Process | None:
    """The living process that has this number now."""
    found = _stat(pid)
    return None if found is None or found[0] in "ZX" else Process(pid, found[1])


def of_container(pid: int, container: str) -> Process | None:
    """The process `pid` if it is one of this machine and of the Docker container with this id,
    else None: the number may be one of another pid namespace, or of another machine."""
    process = find(pid)
    try:
        groups = (_PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    return process if container in groups else None


def shares_network(pid: int) -> bool:
    """Whether a process has this one's network; so it is, too, where that cannot be seen."""
    try:
        return os.readlink(_PROC / str(pid) / "ns/net") == os.readlink(_PROC / "self/ns/net")
    except OSError:
        return True


def runner_name(pid: int) -> str:
    """ "BOOT:NAMESPACE:PID:STARTED" of a process of this machine that lives."""
    process = find(pid)
    started = process.started if process is not None else 0
    return f"{_place()}:{pid}:{started}"


def is_dead(name: str) -> bool:
    """Whether `name`, as `runner_name` made it, is known to be of a process that has ended.
    Not known of one that another machine or pid namespace has named, or that /proc hides."""
    place, _, rest = name.rpartition(":")
    place, _, pid = place.rpartition(":")
    if not (pid.isdigit() and rest.isdigit()):
        return False
    if place.partition(":")[0] != _boot():
        return False
    if place != _place() or Process(int(pid), int(rest)).alive():
        return False
    return not _is_hidden(int(pid))


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of another user that /proc, mounted with hidepid, hides."""
    if _stat(pid) is not None:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        pass
    return False


def _place() -> str:
    namespace = os.readlink(_PROC / "self/ns/pid")
    return f"{_boot()}:{namespace.strip('pid:[]')}"


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> tuple[str, int] | None:
    """State (a letter as ps(1) shows it) and start time."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in parentheses, may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])
