"""Feeds an application from the Spark of this process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tfapp.api.request import FED
from tfapp.contract.names import RUNNING, SUCCEEDED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.control import FeedCounters
from tfapp.engines.credentials import new_credentials
from tfapp.engines.spark.session import first_words
from tfapp.errors import UsageError
from tfapp.feed.driver.feeder import Feeder, FeedResult
from tfapp.feed.driver.ledger import DROP, SHARE
from tfapp.feed.driver.state import ApplicationEndedError, View
from tfapp.feed.program.context import EXPORT, VARIABLE
from tfapp.feed.wire import Credentials
from tfapp.launch.caller import Caller

if TYPE_CHECKING:
    from tfapp.engines.base import Engine


class FedApplication(Protocol):
    """The application that is fed, as its handle shows it."""

    name: str

    def status(self) -> ApplicationStatus: ...

    def result(self) -> object:
        """Waits for its end. ApplicationFailedError."""


class Feeding:
    """The feed of one application that this process has submitted."""

    def __init__(self, caller: Caller, engine: Engine):
        """Creates new credentials for the feed. `engine`: that of the application."""
        self._credentials = Credentials(*new_credentials(time.time()))
        self._caller, self._engine = caller, engine
        self._feeder: Feeder | None = None
        self._asked: tuple[Any, ...] | None = None
        self._application: FedApplication | None = None

    def secrets(self) -> dict[str, str]:
        """The variables with which programs authenticate."""
        return {VARIABLE: self._credentials.packed()}

    def listen(self, application: FedApplication, data: Any, rest: str, ports: str) -> None:
        """Starts to listen for programs; further calls do nothing. `data` may also be a
        SparkContext or a session."""
        if rest not in (DROP, SHARE):
            raise UsageError(f"rest is {rest!r}", f"It is {DROP!r} or {SHARE!r}.")
        asked = rest, ports
        if self._feeder is not None:
            if self._asked != asked:
                raise UsageError(
                    "the feed has begun with other arguments",
                    "Give rest and ports alike in each call.",
                )
            return
        self._asked = asked
        self._application = application
        context = _context_of(data)
        host = context.getConf().get("spark.driver.host") if context is not None else ""
        with self._told():
            self._feeder = Feeder(
                lambda: view_of(application.status()),
                self._credentials,
                host or "127.0.0.1",
                FeedCounters(self._engine, application.name),
                name=application.name,
                ports=_ports(ports),
                rest=rest,
                note=self._caller.note,
                words=first_words,
            )

    def feed(
        self, data: Any, epochs: int, final: bool, stall_timeout: float, consumed: bool
    ) -> FeedResult:
        if epochs < 1:
            raise UsageError(f"epochs is {epochs}", "It is 1 or more.")
        if consumed and final:
            raise UsageError(
                "consumed=True is for data that is not the last", "Give final=False with it."
            )
        with self._told():
            return self._begun().feed(data, epochs, final, stall_timeout, consumed)

    def end(self, wait: bool) -> FeedResult:
        with self._told():
            return self._begun().end(wait)

    @property
    def stopped(self) -> bool:
        """Whether the programs have stopped the feed, or have ended."""
        return self._feeder is not None and self._feeder.stopped

    def infer(self, data: Any, schema: str, columns: Sequence[str] | None) -> Any:
        from tfapp.feed.driver.data import infer

        with self._told():
            return infer(self._begun().order, data, schema, columns)

    def close(self) -> None:
        if self._feeder is not None:
            self._feeder.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Converts errors of the feed into those that the user of the driver gets."""
        try:
            yield
        except ApplicationEndedError:
            assert self._application is not None
            self._application.result()  # raises ApplicationFailedError
            raise

    def _begun(self) -> Feeder:
        if self._feeder is None:
            raise UsageError("nothing was fed", "Call feed() or infer() first.")
        return self._feeder


def _context_of(data: Any) -> Any:
    """The SparkContext of a DataFrame, an RDD or a session; None for another value."""
    session = getattr(data, "sparkSession", data)
    for holder in (session, data):
        for name in ("sparkContext", "context"):
            if hasattr(holder, name):
                return getattr(holder, name)
    return data if hasattr(data, "getConf") else None


def view_of(status: ApplicationStatus) -> View:
    """The state of an application that is fed, from its status. An instance that comes by `flex`
    is not a member of the generation that it does not take part in yet."""
    verdict = status.verdict
    if verdict is not None:
        lines = verdict.cause.last_lines if verdict.cause is not None else ""
        succeeded = verdict.state == SUCCEEDED
        return View(status.generation or 0, {}, verdict.summary, succeeded, last_lines=lines)
    generation = status.generation or 0
    fed = [
        each
        for each in status.instances
        if each.component in FED and status.joined.get(each.instance, 1) <= generation
    ]
    addresses = {
        each.instance: each.exports[each.component][EXPORT]
        for each in fed
        if EXPORT in each.exports.get(each.component, {})
    }
    running = status.state == RUNNING
    known = running and len(addresses) == len(fed)
    done = frozenset(each.instance for each in fed if each.state == SUCCEEDED)
    return View(generation, addresses if known else {}, running=running, done=done)


def _ports(text: str) -> range:
    if not text:
        return range(1)
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found or found[0] < 1 or found[-1] > 65535:
        raise UsageError(f"ports is {text!r}", 'It is a port or a range: "40000-40100".')
    return found
