"""How a program ended, in words and numbers."""

from __future__ import annotations

import signal
from pathlib import Path

from tfapp.contract import Exit

_SHELL_SIGNAL = 128  # a shell says 128 + n when its program was killed by signal n


def decode(returncode: int, out_of_memory: bool = False) -> Exit:
    """From `subprocess`'s return code: negative for a signal. `out_of_memory`: the kernel has
    killed somebody in this container for memory."""
    if returncode >= 0:
        text = f"exit code {returncode}"
        name = _name(returncode - _SHELL_SIGNAL)
        if name:
            text += f" (a shell's word for {name})"
        return Exit(returncode, None, "exit", text)
    number = -returncode
    text = f"killed by {_name(number) or 'signal'} ({number})"
    if number == signal.SIGKILL and out_of_memory:
        return Exit(None, number, "memory", f"{text}: out of memory")
    return Exit(None, number, "signal", text)


def is_signal(number: int) -> bool:
    """Whether there is a signal of this number."""
    return bool(_name(number))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def memory_kills(root: Path = Path("/")) -> int:
    """How often the kernel has killed a process of this container's cgroup for memory; 0 when
    that cannot be seen. `root` stands for the file system's."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return 0
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            file = root / "sys/fs/cgroup" / path.lstrip("/") / "memory.events"
        elif controllers == "memory":
            file = root / "sys/fs/cgroup/memory" / path.lstrip("/") / "memory.oom_control"
        else:
            continue
        count = _counter(file)
        if count is not None:
            return count
    return 0


def _counter(file: Path) -> int | None:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdigit():
            return int(value)
    return None
