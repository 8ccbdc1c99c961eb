"""The end of a program, in words and numbers."""

from __future__ import annotations

import signal
from pathlib import Path

from tfapp.contract.exit import SHELL_SIGNAL, Exit
from tfapp.runner import cgroup


def decode(returncode: int, out_of_memory: bool | None = False, limit: str = "") -> Exit:
    """From `subprocess`'s return code: negative for a signal. `out_of_memory`: whether the kernel
    has killed a process of this container for memory; None: of this container or another. `limit`:
    what is known of the limit."""
    if returncode >= 0:
        text = f"exit code {returncode}"
        name = _name(returncode - SHELL_SIGNAL)
        if name:
            text += f" (a shell's word for {name})"
        return Exit(returncode, None, "exit", text)
    number = -returncode
    text = f"killed by {_name(number) or 'signal'} ({number})"
    if number == signal.SIGKILL and out_of_memory:
        return Exit(None, number, "memory", f"{text}: out of memory{limit and f' ({limit})'}")
    if number == signal.SIGKILL and out_of_memory is None:
        text += ", perhaps for memory"
    return Exit(None, number, "signal", text)


def is_signal(number: int) -> bool:
    """Whether there is a signal of this number."""
    return bool(_name(number))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


class MemoryKills:
    """Counts the processes that the kernel has killed for memory since this was made, by the
    counters of this process's cgroup. `container`: CONTAINER_ID, by which YARN names the cgroup of
    a container. `alone`: whether this process's cgroup belongs to its container only, as in a pod.
    `root`: the root of the file system."""

    def __init__(self, container: str, alone: bool = False, root: Path = Path("/")):
        self._before = 0
        self._own = False
        self._folder: Path | None = None
        for group, folder in cgroup.folders("memory", root=root):
            count = _count(folder)
            if count is not None:
                self._before, self._folder = count, folder
                self._own = alone or (bool(container) and container in group.split("/"))
                return

    def happened(self) -> bool | None:
        """Whether a process of this container was killed. None when one was killed in a cgroup that
        other containers share."""
        if self._folder is None or (_count(self._folder) or 0) <= self._before:
            return False
        return True if self._own else None


def _count(folder: Path) -> int | None:
    """Of version 2, or of version 1."""
    found = cgroup.count(folder / "memory.events", "oom_kill")
    return cgroup.count(folder / "memory.oom_control", "oom_kill") if found is None else found
