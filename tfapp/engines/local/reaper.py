"""Waits for children of this process: those that it watches, and orphans.

The exit status of other children is left to the code that has started them, such as
`subprocess.run` in a thread. Orphans are recognised by their session: containers start in new
sessions, and their processes cannot join the session of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from tfapp.processes import children_of_this_process, stat


class Reaper:
    """Watches children of the process whose event loop runs it, and orphans."""

    def __init__(self) -> None:
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._died = asyncio.Event()

    def start(self) -> None:
        """Must be called in the event loop before the first child is started."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def watch(self, pid: int) -> asyncio.Future[int]:
        """Waits for a child and returns its exit code, or minus the number of the signal that has
        killed it. Must be called just after the start of the child, before the event loop
        continues."""
        future = asyncio.get_running_loop().create_future()
        self._exits[pid] = future
        return future

    @property
    def watched(self) -> set[int]:
        """The children that are watched and still run."""
        return set(self._exits)

    async def next_death(self, timeout: float) -> None:
        """Waits until any child has ended, at most `timeout` seconds."""
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
    """Reaps a child and returns its status; None if it lives."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # no child of this process (any more)
        return None
    return status if found else None
