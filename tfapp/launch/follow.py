"""Following an application to its end, and stopping it meanwhile, without ever being stuck in
waiting for a change."""

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
    """The states that `engine.follow` yields, fetched by a thread of its own: a caller can work
    between two changes and take a Ctrl-C at any moment."""

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
    """The first application of `feed` that is `reached` or has ended; None when there is none
    within `timeout` seconds."""
    for application in changes(feed, timeout, clock):
        if application is None or reached(application) or has_ended(application):
            return application
    return None


def changes(
    feed: Feed, timeout: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Application | None]:
    """The applications of `feed` to the last, then an end; or None once `timeout` is over."""
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
    """The error of a wait for an application to run that is over."""
    return TimedOutError(
        f"{name} is not running after {seconds:g} s; it goes on",
        f"`tfapp status {name}` says what it waits for, `tfapp stop {name}` ends it.",
    )


class Stopper:
    """Stops the application that is being followed. `ask` only counts, from any thread or signal
    handler; whoever follows the application acts on it, between two writes. The first time the
    application is stopped, from the second on without grace."""

    def __init__(self, caller: Caller, engine: Engine, name: str, message: str, again: str = ""):
        """`message`: why, for the verdict. `again`: how to ask a second time, for a person."""
        self._caller, self._engine, self._name = caller, engine, name
        self._message, self._again = message, again
        self._asks = itertools.count(1)
        self.asked = 0  # how often
        self._acted = 0

    def ask(self) -> None:
        """Once more."""
        self.asked = next(self._asks)

    def act(self) -> None:
        """Does what has been asked for since the last call. The stopping itself runs in a
        thread: states and output go on meanwhile."""
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
    """The display of the application that is being followed."""

    def show(self, application: Application) -> None:
        """It has changed to this."""

    def show_output(self) -> None:
        """It may have written something: called every LOOK_EVERY seconds."""


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
