"""The end of a program, in words and numbers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from tfapp.contract.exit import SHELL_SIGNAL, Exit


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
        self._file: Path | None = None
        for group, file in _counters(root):
            count = _count(file)
            if count is not None:
                self._before, self._file = count, file
                self._own = alone or (bool(container) and container in group.split("/"))
                return

    def happened(self) -> bool | None:
        """Whether a process of this container was killed. None when one was killed in a cgroup that
        other containers share."""
        if self._file is None or (_count(self._file) or 0) <= self._before:
            return False
        return True if self._own else None


def _counters(root: Path) -> Iterator[tuple[str, Path]]:
    """The cgroups of this process that may have counters, and the files of these."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            yield group, root / "sys/fs/cgroup" / group.lstrip("/") / "memory.events"
        elif controllers == "memory":
            mounted = root / "sys/fs/cgroup/memory"
            yield group, mounted / group.lstrip("/") / "memory.oom_control"
            # In a container without a cgroup namespace its group is named as the host does, and
            # mounted as if it were the first.
            yield group, mounted / "memory.oom_control"


def _count(file: Path) -> int | None:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdigit():
            return int(value)
    return None
