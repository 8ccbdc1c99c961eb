"""Waits for children of this process: those that were started here, and orphans.

Other children belong to those who have started them, such as `subprocess.run` in a thread, and
their exit status is left alone. Orphans are told by their session: containers begin in one of
their own, and nothing that they start can come back into this process's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from tfapp.processes import children_of_this_process, stat


class Reaper:
    """The children of the process whose event loop runs it that are watched, and the orphans."""

    def __init__(self) -> None:
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._died = asyncio.Event()

    def start(self) -> None:
        """To be called in the loop, before the first child is started."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def watch(self, pid: int) -> asyncio.Future[int]:
        """Its exit code, or minus the number of the signal that killed it. To be called right
        after it was started, before the loop runs again."""
        future = asyncio.get_running_loop().create_future()
        self._exits[pid] = future
        return future

    @property
    def watched(self) -> set[int]:
        """The children that were started here and still run."""
        return set(self._exits)

    async def next_death(self, timeout: float) -> None:
        """Until any child has died, at most `timeout` seconds."""
        self._died.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._died.wait(), timeout)

    def _reap(self) -> None:
        for pid in tuple(self._exits):
            status = _exit_status(pid)
            if status is not None:
                self._died.set()
                future = self._exits.pop(pid)
                if not future.done():
                    future.set_result(os.waitstatus_to_exitcode(status))
        own = os.getsid(0)
        for pid in children_of_this_process() - self.watched:
            found = stat(pid)
            if found is not None and found.dead and found.session != own:
                _exit_status(pid)
                self._died.set()


def _exit_status(pid: int) -> int | None:
    """Takes the status of a child that has ended off the process table; None of one that lives."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # no child of this process (any more)
        return None
    return status if found else None
