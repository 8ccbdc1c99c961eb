"""A command's view of a master that runs: its status now, its changes, its end."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from typing import TypeVar

from tfapp.contract.encoding import encode
from tfapp.contract.keys import KEY_STATUS, KEY_STOP
from tfapp.contract.states import KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.local.layout import RunFolder
from tfapp.engines.local.process_tree import is_alive, send, wait_for_exit
from tfapp.engines.local.state import MasterState, RunConfig
from tfapp.errors import RefusedError, UnreachableError
from tfapp.skein_calls.connection import Connection
from tfapp.skein_calls.events import Broken, Put
from tfapp.skein_calls.opening import connect
from tfapp.skein_calls.watch import Watch

# Seconds for the tries of one call: the first are short because a master that ends meanwhile is
# noticed between two of them, the last is long because the machine may be busy.
DEADLINES = (0.25, 0.5, 1.0, 4.0)
LOOK_EVERY = 5.0  # seconds between two looks whether a silent master still lives
END_DEADLINE = 30.0  # seconds for a master to clean up after it has ended its streams

_T = TypeVar("_T")


class MasterClient:
    """The master of one run. Its calls raise UnreachableError when it does not answer."""

    def __init__(self, run: RunFolder, config: RunConfig, state: MasterState):
        self._run = run
        self._config = config
        self._state = state

    @property
    def alive(self) -> bool:
        """Whether its process lives."""
        return is_alive(self._state.process)

    def wait_for_end(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds for the end of its process; whether it has ended."""
        return wait_for_exit(self._state.process, timeout)

    def has_ended(self, decided: bool = False) -> bool:
        """After it could not be reached: whether that was because it ends. Waits for its end
        while it cleans up, or when the verdict was `decided` before."""
        ends = decided or not self._run.certificate.exists()
        return self.wait_for_end(END_DEADLINE if ends else 0.5)

    def status(self) -> ApplicationStatus:
        """What the coordinator published last, or that the run is accepted."""
        with contextlib.ExitStack() as stack:
            return self._read(self._patiently(lambda c: c.get(KEY_STATUS), stack))

    def changes(self) -> Iterator[ApplicationStatus]:
        """The status now and at each change, until the master has ended."""
        last = None
        while self.alive:
            try:
                for status in self._watch():
                    if status != last:
                        last = status
                        yield status
            except UnreachableError:
                if self.has_ended(decided=last is not None and last.verdict is not None):
                    return
                raise
            self.wait_for_end(LOOK_EVERY)

    def _watch(self) -> Iterator[ApplicationStatus]:
        """Until the stream breaks, or the master's process is gone."""

        def subscribe(connection: Connection) -> tuple[Watch, dict[str, bytes]]:
            watch = connection.watch(keys=[KEY_STATUS])
            return watch, watch.read()

        with contextlib.ExitStack() as stack:
            watch, found = self._patiently(subscribe, stack)
            yield self._read(found.get(KEY_STATUS))
            while True:
                event = watch.get(timeout=LOOK_EVERY)
                if isinstance(event, Put):
                    yield self._read(event.value)
                elif isinstance(event, Broken) or (event is None and not self.alive):
                    return

    def connect(self) -> Connection:
        """A connection for calls of any kind."""
        return self._connect(DEADLINES[-1])

    def ask_to_stop(self, message: str) -> None:
        """Asks the coordinator to end the application with grace."""
        with contextlib.ExitStack() as stack:
            value = encode({"message": message})
            self._patiently(lambda c: c.put(KEY_STOP, value), stack)

    def shut_down(self, message: str) -> None:
        """Ends the application as KILLED without asking its coordinator."""
        with self._connect(DEADLINES[-1]) as connection:
            try:
                connection.shutdown(KILLED, message)
            except RefusedError as error:  # it was ending already
                raise UnreachableError(str(error)) from error

    def kill(self, timeout: float) -> bool:
        """Kills the master's process and waits for that. Its containers die by themselves, or
        when the run is buried (tfapp.engines.local.runs)."""
        send(self._state.process, signal.SIGKILL)
        return self.wait_for_end(timeout)

    def _patiently(self, call: Callable[[Connection], _T], stack: contextlib.ExitStack) -> _T:
        """Tries a call that may be repeated. The connection stays open until `stack` is closed."""
        for deadline in DEADLINES:
            with contextlib.ExitStack() as attempt:
                try:
                    result = call(attempt.enter_context(self._connect(deadline)))
                except (UnreachableError, RefusedError) as error:
                    # A call that arrives while the master ends may be cancelled, which is a
                    # refusal to Skein's client; nothing that is called here can be refused.
                    if deadline == DEADLINES[-1] or not self.alive:
                        raise UnreachableError(str(error)) from error
                else:
                    stack.push(attempt.pop_all())
                    return result
        raise AssertionError("the last try returns or raises")

    def _connect(self, deadline: float) -> Connection:
        try:
            certificate, key = self._run.certificate.read_bytes(), self._run.key.read_bytes()
        except FileNotFoundError as error:  # it has begun to clean up
            raise UnreachableError(f"{self._config.name} is about to end") from error
        application = self._config.application
        return connect(self._state.address, application, certificate, key, deadline)

    def _read(self, value: bytes | None) -> ApplicationStatus:
        if value is None:
            return self._config.accepted
        return ApplicationStatus.from_dict(json.loads(value))
