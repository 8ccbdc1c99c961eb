"""The state that the threads of a feed's driver share: the ledger, the programs, progress and
errors."""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfapp.errors import FeedError
from tfapp.feed import ledger as entries
from tfapp.feed.ledger import Ledger
from tfapp.feed.wire import Line

BROKEN_LIMIT = 60.0  # seconds after a lost connection without a new generation until the feed fails
STALL_TIMEOUT = 600.0  # seconds


class View(NamedTuple):
    """The present state of the application. `addresses`: instance -> "host:port" of its feed port.
    `ended`: the verdict in a sentence, "" while it runs."""

    generation: int
    addresses: Mapping[str, str]
    ended: str = ""
    succeeded: bool = False


class ApplicationEndedError(Exception):
    """The application has ended with a verdict while it was fed."""


class Program:
    """A program that is fed, in one generation."""

    def __init__(self, instance: str, number: int, line: Line):
        self.instance, self.number, self.line = instance, number, line
        self.ready: Mapping[str, Any] | None = None
        self.answers = False
        self.took = 0
        self.holds: int | None = None  # batches that it has taken, if it holds


class State:
    """The state of one feed. Read and written only while `changed` is held."""

    def __init__(self, name: str, ledger: Ledger, note: Callable[[str], None]):
        """`note`: called with sentences for the user."""
        self.name, self.ledger, self.note = name, ledger, note
        self.stall_timeout = STALL_TIMEOUT
        self.feed_id = secrets.randbits(62)
        self.seed = random.Random(self.feed_id).randrange(1 << 20)
        lock = threading.RLock()
        self.changed = threading.Condition(lock)  # notified for the caller of `feed`
        self.moved = threading.Condition(lock)  # notified for threads that serve tasks
        self.view = View(0, {})
        self.programs: dict[str, Program] = {}
        self.live = False  # whether this generation's programs take rows
        self.broken: tuple[float, str] | None = None
        self.features: list[dict[str, Any]] | None = None
        self.published: tuple[int, int, bool] | None = None
        self.error = ""
        self.short: dict[entries.Part, str] = {}  # messages of last attempts that saw too few rows
        self.data = 0  # number of the data that is fed now, from 1
        self.pass_number = 0
        self.asked_by: Any = None  # the SparkContext of tasks that ask the programs
        self.begun = 0  # tasks of the present job that have begun
        self.progress = time.monotonic()  # time of the last progress
        self.closed = False
        self.unasked = False  # whether no more questions follow
        self.is_fed = False  # whether `feed` was called
        self.idle: Callable[[], bool] = lambda: False  # whether the driver has no rows to feed now
        # Called with `changed` held, before programs get a message that may end them.
        self.before_the_end: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Raises FeedError if the feed has failed, is closed or has stalled; ApplicationEndedError
        if the application has ended without success."""
        if self.error:
            raise FeedError(self.error)
        if self.closed:
            raise FeedError("the feed is closed")
        if self.view.ended and not self.view.succeeded:
            raise ApplicationEndedError(self.view.ended)
        self.check_broken()
        if time.monotonic() - self.progress > self.stall_timeout and not self.view.ended:
            self.fail(f"nothing has moved for {self.stall_timeout:g} s: {self.stalled()}")
            raise FeedError(self.error)

    def check_broken(self) -> None:
        """Raises FeedError if the feed has failed, or if a program is gone and no new generation
        has begun in time."""
        if self.broken is not None and time.monotonic() - self.broken[0] > BROKEN_LIMIT:
            self.fail(self.broken[1])
        if self.error:
            raise FeedError(self.error)

    def stalled(self) -> str:
        """The likeliest reason why there is no progress."""
        silent = [name for name in self.view.addresses if name not in self.programs]
        silent += [p.instance for p in self.programs.values() if p.ready is None]
        if not self.view.addresses:
            return "no program of the application exports a feed port"
        if silent:
            return f"context.feed.dataset() was not called by {', '.join(silent)}"
        batches, rest, _ = self.published or (0, 0, False)
        whole = batches * self.batch() + rest
        slow = [p.instance for p in self.programs.values() if p.took < whole]
        if slow:
            return f"there are batches for {', '.join(slow)}, and the program takes none"
        if self.idle():
            return "the driver feeds nothing at the moment"
        if not self.begun:
            return "Spark has begun no task that sends; its executors may have no free slot"
        return "the tasks that send get no rows from the data"

    def fail(self, words: str) -> None:
        """Ends the feed with an error, for the programs, the tasks and the caller of `feed`."""
        with self.changed:
            self.error = self.error or words
            self.before_the_end()
            for program in self.programs.values():
                with contextlib.suppress(OSError):
                    program.line.say({"error": f"the feed has failed: {words}"})
            self.wake()

    def wake(self) -> None:
        """Wakes all waiting threads."""
        self.changed.notify_all()
        self.moved.notify_all()

    def publish(self) -> None:
        """Tells the programs the number of batches that they may take, if it has changed."""
        now = self.ledger.batches, self.ledger.rest, self.ledger.over
        if now != self.published and self.live:
            self.published = now
            if now[2]:
                self.before_the_end()
            self.say_all({"batches": now[0], "rest": now[1], "over": now[2]})

    def say_all(self, what: dict[str, Any]) -> None:
        """Sends a line to all programs."""
        for program in self.programs.values():
            try:
                program.line.say(what)
            except OSError:
                program.line.end()  # the thread that reads the connection notices

    def columns(self) -> Sequence[str] | None:
        """The columns that the programs ask for, None for all."""
        with self.changed:
            for program in self.programs.values():
                return (program.ready or {}).get("columns")
        return None

    def batch(self) -> int:
        """The number of rows of a batch."""
        for program in self.programs.values():
            return int((program.ready or {"batch": 1})["batch"])
        return 1
