"""A client for a running master, on any engine: the status, its changes, and the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_STATUS, KEY_STOP, KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import time_to_stop
from tfapp.errors import RefusedError, UnreachableError
from tfapp.frozen import frozen
from tfapp.protocol.connection import Connection, connect
from tfapp.protocol.watch import Broken, Put, Watch

# Seconds for the tries of one call: the first are short because a master that ends meanwhile is
# noticed between two of them, the last is long because the machine may be busy.
DEADLINES = (0.25, 0.5, 1.0, 4.0)
LOOK_EVERY = 5.0  # seconds between two looks whether a silent master still lives
END_DEADLINE = 30.0  # seconds for a master that ends to clean up
SHUTDOWN_DEADLINE = 30.0  # seconds for a master to end its containers and itself

_T = TypeVar("_T")


@frozen
class Address:
    """The address of a master (host:port), and the credentials of the run in PEM."""

    address: str
    certificate: bytes
    key: bytes


class Run(Protocol):
    """An engine's record of a run with a master."""

    # Seconds in which the engine knows of the end of a master that does not answer any more.
    notice: float

    @property
    def accepted(self) -> ApplicationStatus:
        """The status until the coordinator publishes one."""

    def address(self) -> Address:
        """The address. UnreachableError if the master does not serve yet, or not any more."""

    def is_ending(self) -> bool:
        """Whether the master is known to be cleaning up."""

    def wait_for_end(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds (0: not at all) and returns whether the run has ended."""

    def kill(self) -> None:
        """Ends the run without its master, and waits until it has ended."""


class Client:
    """A client for the master of one run. Methods raise UnreachableError if it does not answer."""

    def __init__(self, run: Run):
        self._run = run

    def status(self) -> ApplicationStatus:
        """The last status that the coordinator has published, or ACCEPTED."""
        return self.ask(self.read)

    def read(self, connection: Connection) -> ApplicationStatus:
        """As `status`, in a single call on a connection."""
        return self._decode(connection.get(KEY_STATUS))

    def ask(self, call: Callable[[Connection], _T]) -> _T:
        """The result of one or several idempotent calls."""
        with contextlib.ExitStack() as stack:
            return self._patiently(call, stack)

    def connect(self) -> Connection:
        """A connection for any calls; the caller closes it."""
        return self._connect(DEADLINES[-1])

    def changes(self) -> Iterator[ApplicationStatus]:
        """Yields the status at once and at each change, until the run has ended."""
        last = None
        while not self._run.wait_for_end(0):
            try:
                for status in self.published():
                    if status != last:
                        last = status
                        yield status
            except UnreachableError:
                if self.has_ended(decided=last is not None and last.verdict is not None):
                    return
                raise
            self._run.wait_for_end(LOOK_EVERY)

    def published(self) -> Iterator[ApplicationStatus]:
        """Yields the status at once and at each change, until the stream breaks or the run has
        ended."""

        def subscribe(connection: Connection) -> tuple[Watch, dict[str, bytes]]:
            watch = connection.watch(keys=[KEY_STATUS])
            return watch, watch.read()

        with contextlib.ExitStack() as stack:
            watch, found = self._patiently(subscribe, stack)
            yield self._decode(found.get(KEY_STATUS))
            while True:
                event = watch.get(timeout=LOOK_EVERY)
                if isinstance(event, Put):
                    yield self._decode(event.value)
                elif isinstance(event, Broken) or (event is None and self._run.wait_for_end(0)):
                    return

    def has_ended(self, decided: bool = False) -> bool:
        """Whether an unreachable master has ended. Waits for the end if the master is cleaning up,
        or if a verdict was `decided` before."""
        ends = decided or self._run.is_ending()
        return self._run.wait_for_end(END_DEADLINE if ends else self._run.notice)

    def stop(self, message: str, force: bool = False, timeout: float | None = None) -> None:
        """Ends the run in the same steps on all engines: asks the coordinator and waits for the
        grace time (see Engine.stop), then asks the master, then kills it. With `force` the
        coordinator is not asked."""
        if not force:
            self._attempt(lambda: self._ask_to_stop(message), timeout)
        if not self._run.wait_for_end(0):
            self._attempt(lambda: self._shut_down(message), SHUTDOWN_DEADLINE)
        if not self._run.wait_for_end(0):
            self._run.kill()

    def _attempt(self, call: Callable[[], ApplicationStatus], timeout: float | None) -> None:
        try:
            status = call()
        except UnreachableError:
            self.has_ended()  # or it hangs
        else:
            self._run.wait_for_end(time_to_stop(status, timeout))

    def _ask_to_stop(self, message: str) -> ApplicationStatus:
        def ask(connection: Connection) -> ApplicationStatus:
            connection.put(KEY_STOP, encode({"message": message}))
            return self.read(connection)

        return self.ask(ask)

    def _shut_down(self, message: str) -> ApplicationStatus:
        with self.connect() as connection:
            try:
                connection.shutdown(KILLED, message)
            except RefusedError as error:  # it was ending already
                raise UnreachableError(str(error)) from error
        return self._run.accepted

    def _decode(self, value: bytes | None) -> ApplicationStatus:
        if value is None:
            return self._run.accepted
        return ApplicationStatus.from_dict(json.loads(value))

    def _patiently(self, call: Callable[[Connection], _T], stack: contextlib.ExitStack) -> _T:
        """Repeats an idempotent call. The connection is open until `stack` is closed."""
        for deadline in DEADLINES:
            with contextlib.ExitStack() as attempt:
                try:
                    result = call(attempt.enter_context(self._connect(deadline)))
                except UnreachableError:
                    if deadline == DEADLINES[-1] or self._run.wait_for_end(0):
                        raise
                else:
                    stack.push(attempt.pop_all())
                    return result
        raise AssertionError("the last try returns or raises")

    def _connect(self, deadline: float) -> Connection:
        at = self._run.address()
        return connect(at.address, at.certificate, at.key, deadline)
