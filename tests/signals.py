"""Signals that come at a bad moment."""

import ctypes
import os
from pathlib import Path

from tests.waiting import wait

_libc = ctypes.CDLL(None, use_errno=True)


def send_to_another_thread(pid: int, number: int) -> None:
    """Sends a signal that does not wake up the main thread, like one that comes a moment before the
    main thread waits for something. Waits until the process has another thread."""
    tasks = Path(f"/proc/{pid}/task")

    def others() -> list[int]:
        return sorted({int(each.name) for each in tasks.iterdir()} - {pid})

    wait(others, "another thread", 60)
    assert _libc.tgkill(pid, others()[-1], number) == 0, os.strerror(ctypes.get_errno())
