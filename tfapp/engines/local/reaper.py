"""Waits for this process's children: those it started, and those it inherited as a subreaper."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal


class Reaper:
    """Children of the process whose event loop runs it. Nobody else may wait for them."""

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
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._died.set()
            future = self._exits.pop(pid, None)
            if future is not None and not future.done():
                future.set_result(os.waitstatus_to_exitcode(status))
