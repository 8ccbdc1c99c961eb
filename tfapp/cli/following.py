"""An application's changes as they come, without ever being stuck in waiting for one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from tfapp.contract.states import FINAL_STATES
from tfapp.engines.base import Application, Engine


class Feed:
    """What `engine.follow` yields, fetched by a thread of its own, so that a caller can do
    something else between two changes and take a Ctrl-C at any moment."""

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
    feed: Feed, timeout: float | None, clock: Callable[[], float]
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
    return application.status.state == "RUNNING"
