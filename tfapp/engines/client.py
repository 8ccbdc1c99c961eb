"""A run, as an engine knows it, and the client for its master: its status, changes and end."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_STATUS, KEY_STOP, KILLED, NODES, QUEUE, QUOTA
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application, Link, time_to_stop
from tfapp.engines.definition import of_the_user
from tfapp.errors import RefusedError, SilentError, UnavailableError, UnreachableError
from tfapp.frozen import frozen
from tfapp.master.parent import SILENCE
from tfapp.protocol.connection import Connection, connect
from tfapp.protocol.watch import Broken, Put, Watch

# Seconds for the tries of one call: the first are short because a master that ends meanwhile is
# noticed between two of them, the last is long because the machine may be busy.
DEADLINES = (0.25, 0.5, 1.0, 4.0)
LOOK_EVERY = 5.0  # seconds between two looks whether a silent master still lives
AGAIN = 1.0  # seconds after a stream has broken until the master, or the next one, is asked again
HANG_LIMIT = SILENCE + 5.0  # seconds after which a master that hung has been replaced
END_DEADLINE = 30.0  # seconds for a master that ends to clean up
SHUTDOWN_DEADLINE = 30.0  # seconds for a master to end its containers and itself

_T = TypeVar("_T")


def held_in_words(status: ApplicationStatus) -> str:
    """What a scheduler holds the application back for, since when, and until when at most."""
    held = status.held
    if held is None:
        return ""
    what = {QUEUE: "its queue", QUOTA: "room in a quota", NODES: "nodes that have room"}[held.kind]
    limit = "for as long as it takes"
    if held.until is not None:
        limit = f"until {_clock(held.until)} at most (site.global.queue.timeout)"
    return f"waits for {what} since {_clock(held.since)}, {limit}"


def no_answer(status: ApplicationStatus) -> str:
    """What an application waits for whose master does not answer, and has said `status` last."""
    return f"its master does not answer; this is what it said at {_clock(status.updated)}"


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@frozen
class Address:
    """The address of a master (host:port), and the credentials of the run in PEM."""

    address: str
    certificate: bytes
    key: bytes


class Run:
    """A run of which an engine has a record. What it tells is that of the last look. Derived
    classes define what raises NotImplementedError, and whatever else differs."""

    notice = 0.5  # seconds in which the end of a master that does not answer any more is known
    wait_every = 0.5  # seconds between two looks for its end
    shuts_down = True  # whether a master that is told to shut down ends the run
    fetches = True  # whether it may take seconds to fetch what describes it

    def __init__(self, engine: str, number: int) -> None:
        self.number = number
        self.client = Client(self)
        self.left: Callable[[], bool] = lambda: False  # whether nobody follows it any more
        self._engine = engine

    @property
    def hang_limit(self) -> float:
        """Seconds after which a master that hangs has been replaced; 0 if it is not."""
        return 0.0

    @property
    def accepted(self) -> ApplicationStatus:
        """The status until the coordinator publishes one."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        raise NotImplementedError

    @property
    def said(self) -> ApplicationStatus | None:
        """What its master has published last, where that can be known without it."""
        return None

    def application(self) -> Application:
        """Its application, with this run."""
        raise NotImplementedError

    def shown(
        self,
        name: str,
        id: str,
        status: ApplicationStatus,
        tags: Iterable[str],
        logs: Path,
        links: tuple[Link, ...] = (),
        waits: str = "",
    ) -> Application:
        """See Application. `tags`: with those of tfapp itself. `logs`: may be missing."""
        return Application(
            name=name,
            engine=self._engine,
            id=id,
            run=self.number,
            live=not self.ended,
            status=status,
            tags=of_the_user(tags),
            links=links,
            waits="" if self.ended else waits or held_in_words(status),
            logs=str(logs) if logs.exists() else "",
        )

    # -- looking --
    def read(self) -> None:
        """Reads its record again, which was read when it was found. UnavailableError if the cluster
        does not answer."""

    def settle(self) -> bool:
        """Whether it has ended by now. The remains of a master that has died are cleared up."""
        return self.ended

    def ask(self) -> None:
        """Asks what a run that has not ended does. UnreachableError if its master does not
        answer."""
        raise NotImplementedError

    def look(self) -> None:
        """Finds out how it is now. UnreachableError if its master lives but does not answer, and
        nothing that it has said is known."""
        if self.settle():
            return
        try:
            self.ask()
        except UnreachableError as error:
            if self.client.has_ended():
                self.settle()
            else:
                self.recall(error)

    def recall(self, error: UnreachableError) -> None:
        """Takes what its master, which lives but does not answer, has said last. `error`, which is
        raised, where that is not known."""
        raise error

    def changes(self) -> Iterator[Application]:
        """Yields the application at once and at each change, until its record has to be read
        again. UnavailableError if the cluster does not answer."""
        raise NotImplementedError

    # -- for its client --
    def address(self) -> Address:
        """The address. UnreachableError if the master does not serve yet, or not any more."""
        raise NotImplementedError

    def next_address(self) -> Address | None:
        """That of the master which has taken the place of one that was not reached, where it may
        have another, and no cluster has to be asked for it."""
        return None

    def is_ending(self) -> bool:
        """Whether the master is known to be cleaning up, or to have ended."""
        return self.ended

    def wait_for_end(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds (0: not at all) and returns whether the run has ended.
        False also if the cluster does not answer."""
        return happens(self._has_ended, timeout, self.wait_every)

    def _has_ended(self) -> bool:
        if self.ended:
            return True
        try:
            self.read()
            return self.settle()
        except UnavailableError:
            return False

    # -- ending --
    def stop(self, message: str, force: bool, timeout: float | None) -> None:
        self.client.stop(message, force, timeout)

    def kill(self) -> None:
        """Ends the run without its master, and waits until it has ended."""
        raise NotImplementedError

    def clear(self) -> None:
        """Ends what still runs of a run that has ended, which should be nothing."""


def happens(look: Callable[[], bool], timeout: float, every: float) -> bool:
    """Whether `look`, called every `every` seconds, returns true within `timeout` seconds (0: at
    once)."""
    deadline = time.monotonic() + timeout
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(every)
    return found


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

    def connect_surely(self) -> Connection:
        """As `connect`, to a master that answers: where one hangs, the next one is waited for."""
        until = time.monotonic() + self._run.hang_limit
        while True:
            try:
                self.status()
                return self.connect()
            except SilentError:
                if self._run.is_ending() or self._run.wait_for_end(AGAIN):
                    raise
                if time.monotonic() > until:
                    raise

    def changes(self) -> Iterator[ApplicationStatus]:
        """Yields the status at once and at each change, until the run has ended or is left."""
        last, until = None, time.monotonic() + self._run.hang_limit
        while not self._over():
            try:
                for status in self.published():
                    if status != last:
                        last = status
                        yield status
            except UnreachableError:
                if self.has_ended(decided=last is not None and last.verdict is not None):
                    return
                if time.monotonic() > until:
                    raise
            else:
                until = time.monotonic() + self._run.hang_limit
            self._run.wait_for_end(AGAIN)

    def published(self) -> Iterator[ApplicationStatus]:
        """Yields the status at once and at each change, until the stream breaks or the run has
        ended or is left."""

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
                elif isinstance(event, Broken) or (event is None and self._over()):
                    return

    def _over(self) -> bool:
        return self._run.left() or self._run.wait_for_end(0)

    def has_ended(self, decided: bool = False) -> bool:
        """Whether an unreachable master has ended. Waits for the end if the master is cleaning up,
        or if a verdict was `decided` before."""
        ends = decided or self._run.is_ending()
        return self._run.wait_for_end(END_DEADLINE if ends else self._run.notice)

    def stop(self, message: str, force: bool = False, timeout: float | None = None) -> None:
        """Ends the run in the same steps on all engines: asks the coordinator and waits for the
        grace time (see Engine.stop), then asks the master if that ends the run, then kills it. With
        `force` the coordinator is not asked."""
        if not force:
            self._attempt(lambda: self._ask_to_stop(message), timeout)
        if self._run.shuts_down and not self._run.wait_for_end(0):
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

    def ask_to_stop(self, message: str) -> ApplicationStatus:
        """Asks the coordinator to end the run. Returns its last status."""

        def ask(connection: Connection) -> ApplicationStatus:
            connection.put(KEY_STOP, encode({"message": message}))
            return self.read(connection)

        return self.ask(ask)

    def _ask_to_stop(self, message: str) -> ApplicationStatus:
        until = time.monotonic() + self._run.hang_limit
        while True:
            try:
                return self.ask_to_stop(message)
            except UnreachableError:
                ended = self._run.is_ending() or self._run.wait_for_end(0)
                if ended or time.monotonic() > until:
                    raise
                time.sleep(self._run.wait_every)

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
        began = time.monotonic()
        for deadline in DEADLINES:
            with contextlib.ExitStack() as attempt:
                try:
                    result = call(attempt.enter_context(self._connect(deadline)))
                except UnreachableError as error:
                    if deadline == DEADLINES[-1] or self._run.wait_for_end(0):
                        raise self._in_words(error, time.monotonic() - began) from error
                else:
                    stack.push(attempt.pop_all())
                    return result
        raise AssertionError("the last try returns or raises")

    def _in_words(self, error: UnreachableError, waited: float) -> UnreachableError:
        if not isinstance(error, SilentError):
            return error
        name, said = self._run.accepted.name, self._run.said
        last = f"; it spoke last at {_clock(said.updated)}" if said else ""
        return SilentError(
            f"the master of {name} has not answered for {waited:.0f} s{last}",
            f"It hangs, or the network between is cut. `tfapp stop {name}` ends the application "
            "without it.",
        )

    def _connect(self, deadline: float) -> Connection:
        at = self._run.address()
        connection = connect(at.address, at.certificate, at.key, deadline)

        def look() -> None:
            found = self._run.next_address()
            used = Address(connection.address, connection.certificate, connection.key)
            if found is not None and found != used:
                connection.move(found.address, (found.certificate, found.key))

        connection.when_lost(look)
        return connection
