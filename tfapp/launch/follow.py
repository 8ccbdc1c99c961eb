"""Follows an application to its end, and stops it on request meanwhile. No wait blocks a request to
stop."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from tfapp.contract.names import FINAL_STATES, RUNNING
from tfapp.engines.base import Application, Engine
from tfapp.errors import TimedOutError
from tfapp.launch.caller import Caller

# Seconds between two looks at a growing log. What changes in between is shown together.
LOOK_EVERY = 0.05


class Feed:
    """The states that `engine.follow` yields, fetched by a thread of its own, so that a caller can
    work between two changes and react to Ctrl-C at any moment."""

    def __init__(self, engine: Engine, name: str, run: int | None = None):
        self._queue: queue.SimpleQueue[Application | BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._fetch, args=(engine, name, run), name=f"follow-{name}", daemon=True
        )
        self._thread.start()

    def _fetch(self, engine: Engine, name: str, run: int | None) -> None:
        try:
            for application in engine.follow(name, run):
                self._queue.put(application)
            self._queue.put(None)
        except BaseException as error:  # handed to the thread that asks
            self._queue.put(error)

    def next(self, timeout: float) -> Application | None:
        """The next change, or None when there is none within `timeout` seconds. Raises what
        `engine.follow` raised. EOFError after the last one."""
        try:
            item = self._queue.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        if item is None:
            raise EOFError("the application has ended")
        return item


def wait_until(
    feed: Feed,
    reached: Callable[[Application], bool],
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Application | None:
    """The first application of `feed` for which `reached` holds or that has ended. None when
    `timeout` seconds pass first."""
    for application in changes(feed, timeout, clock):
        if application is None or reached(application) or has_ended(application):
            return application
    return None


def changes(
    feed: Feed, timeout: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Application | None]:
    """Yields the applications of `feed` to the last one, or None and no more once `timeout` is
    over."""
    deadline = None if timeout is None else clock() + timeout
    while True:
        left = 3600.0 if deadline is None else deadline - clock()
        try:
            application = feed.next(left)
        except EOFError:
            return
        if application is not None:
            yield application
        elif deadline is not None and clock() >= deadline:
            yield None
            return


def has_ended(application: Application) -> bool:
    """Whether there is a verdict."""
    return application.status.state in FINAL_STATES


def is_running(application: Application) -> bool:
    """Whether the cluster has formed and the programs run."""
    return application.status.state == RUNNING


def not_running_in_time(name: str, seconds: float) -> TimedOutError:
    """The error when an application does not run in time."""
    return TimedOutError(
        f"{name} is not running after {seconds:g} s; it goes on",
        f"`tfapp status {name}` says what it waits for, `tfapp stop {name}` ends it.",
    )


class Stopper:
    """Stops the application that is being followed. `ask` may be called from any thread or signal
    handler; it only counts. The code that follows the application calls `act`, between two writes.
    The first request stops the application with its grace, the second without."""

    def __init__(self, caller: Caller, engine: Engine, name: str, message: str, again: str = ""):
        """`message`: the reason, for the verdict. `again`: how a person asks a second time."""
        self._caller, self._engine, self._name = caller, engine, name
        self._message, self._again = message, again
        self._asks = itertools.count(1)
        self.asked = 0  # how often
        self._acted = 0

    def ask(self) -> None:
        """Requests a stop, or, if called again, a stop without grace."""
        self.asked = next(self._asks)

    def act(self) -> None:
        """Carries out the requests since the last call. The stop itself runs in a thread, so that
        states and output are shown meanwhile."""
        if self._acted == self.asked:
            return
        self._acted = self.asked
        force = self.asked > 1
        how = "at once" if force else self._again
        self._caller.note(f"stopping {self._name} {how}".rstrip())
        threading.Thread(target=self._stop, args=(force,), daemon=True).start()

    def _stop(self, force: bool) -> None:
        try:
            self._engine.stop(self._name, self._message, force=force)
        except Exception as error:  # else it is lost with its thread
            self._caller.note(f"stopping {self._name}: {error}")


class Display(Protocol):
    """Shows the application that is being followed."""

    def show(self, application: Application) -> None:
        """Shows the application, which has changed to this."""

    def show_output(self) -> None:
        """Shows new output, if there is any. Called every LOOK_EVERY seconds."""


def follow(
    engine: Engine,
    application: Application,
    display: Display,
    stopper: Stopper,
    wait: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Application:
    """Follows a run to its end and returns it with its verdict. TimedOutError when it is not
    RUNNING after `wait` seconds; it goes on."""
    deadline = None if wait is None else clock() + wait
    feed = Feed(engine, application.name, application.run)
    was_running = False
    with contextlib.suppress(EOFError):
        while True:
            changed = feed.next(LOOK_EVERY)
            if changed is not None:
                application = changed
                was_running = was_running or is_running(application)
                display.show(application)
            display.show_output()
            stopper.act()
            if deadline is not None and not was_running and clock() >= deadline:
                raise not_running_in_time(application.name, wait or 0)
    return application
