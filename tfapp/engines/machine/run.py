"""A run whose master is a process of this machine."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator

from tfapp.contract.names import FINAL_STATES, KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines import refusals
from tfapp.engines.base import Application
from tfapp.engines.client import HANG_LIMIT, Address, Run, happens, no_answer
from tfapp.engines.credentials import read_pem
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.runs import Runs
from tfapp.engines.machine.state import (
    MasterState,
    RunConfig,
    read_config,
    read_ending,
    read_state,
    read_status,
)
from tfapp.errors import BadStateError, UnreachableError
from tfapp.master.ending import Ending
from tfapp.processes import is_alive, wait_for_exit

KILL_DEADLINE = 15.0  # seconds for a killed master to be gone
BACK_LIMIT = 15.0  # seconds for another master to serve after one was lost
BACK_EVERY = 0.05


class MachineRun(Run):
    """The run in `folder`, one of `runs`, of the engine with the name `engine`. Methods raise
    DamagedError if its files cannot be read."""

    def __init__(self, engine: str, folder: RunFolder, runs: Runs):
        super().__init__(engine, folder.number)
        self.folder = folder
        self._runs = runs
        self._state: MasterState | None = None
        self._ending: Ending | None = None
        self._published: ApplicationStatus | None = None
        self._waits = ""

    @functools.cached_property
    def config(self) -> RunConfig:
        return read_config(self.folder)

    @property
    def accepted(self) -> ApplicationStatus:
        return self.config.accepted

    @property
    def ended(self) -> bool:
        return self._ending is not None

    @property
    def said(self) -> ApplicationStatus | None:
        return read_status(self.folder)

    def application(self) -> Application:
        ending, config = self._ending, self.config
        status = ending.status if ending else self._published or config.accepted
        id, tags, logs = config.application, config.tags, self.folder.logs
        return self.shown(config.name, id, status, tags, logs, waits=self._waits)

    def settle(self, held: bool = False) -> bool:
        """See Run.settle. `held`: the caller holds the lock of the application."""
        self._ending = self._found_ending(held)
        return self._ending is not None

    def _found_ending(self, held: bool) -> Ending | None:
        ending = read_ending(self.folder)
        if ending is not None:
            return ending
        name, self._state = self.config.name, read_state(self.folder)
        if self._state is not None:
            if self._state.host != self._runs.hostname:
                raise UnreachableError(
                    f"{name} was started on {self._state.host}", "Ask for it there."
                )
            if self._state.lives:
                return None
        if held:
            return self._runs.clear_up(self.folder)
        with self._runs.home.lock(name) as held_now:
            if held_now:
                return self._found_ending(held=True)
        if self._state is None:
            return None  # it is just being started
        # Another command clears it up.
        return self._runs.lost(self.folder, self.config)

    def ask(self) -> None:
        if self._state is not None and self._state.address:
            self._published = self.client.status()

    def recall(self, error: UnreachableError) -> None:
        """See Run.recall. A master that hangs is replaced, unless it is the only one."""
        if not self.hang_limit:
            raise error
        self._published = self.said
        self._waits = no_answer(self._published or self.accepted)

    def changes(self) -> Iterator[Application]:
        """See Run.changes. They end once all processes of the application have ended."""
        for status in self.client.changes():
            if status.state not in FINAL_STATES:
                self._published = status
                yield self.application()

    # -- for its client --
    @property
    def hang_limit(self) -> float:
        return HANG_LIMIT if self.config.attempts > 1 else 0.0

    def address(self) -> Address:
        """See Run.address. BadStateError if it is just being started. After the loss of a master,
        the next one has a few seconds to serve."""
        happens(self._is_there, BACK_LIMIT, BACK_EVERY)
        if self._state is None or not self._state.address:
            raise refusals.starting(self.config.name)
        try:
            certificate, key = read_pem(self.folder.certificate), read_pem(self.folder.key)
        except FileNotFoundError as error:  # it has begun to clean up
            raise UnreachableError(f"{self.config.name} is about to end") from error
        except ValueError as error:  # it may be stopped like one that does not answer
            hint = f"`tfapp stop {self.config.name} --force` ends it."
            raise UnreachableError(str(error), hint) from error
        return Address(self._state.address, certificate, key)

    def next_address(self) -> Address | None:
        """See Run.next_address. One that begins anew has credentials of its own."""
        with contextlib.suppress(UnreachableError, BadStateError):
            return self.address()
        return None

    def _is_there(self) -> bool:
        """Whether the master of the state, which is read again, lives, or none comes any more."""
        self._state = read_state(self.folder)
        return self._state is None or is_alive(self._state.process) or not self._state.lives

    def is_ending(self) -> bool:
        return not self.folder.certificate.exists()

    def wait_for_end(self, timeout: float) -> bool:
        if self._state is None:
            return False
        if timeout <= 0:
            return not self._state.lives
        end = time.monotonic() + timeout
        return all(wait_for_exit(p, end - time.monotonic()) for p in self._state.processes)

    def kill(self) -> None:
        if self._state is not None:
            self._state.kill()
        self.wait_for_end(KILL_DEADLINE)
        with self._runs.home.lock(self.config.name) as held:
            if held:
                self._runs.clear_up(self.folder, KILLED)
