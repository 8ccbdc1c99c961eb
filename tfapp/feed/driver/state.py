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
from tfapp.feed.driver import ledger as entries
from tfapp.feed.driver.ledger import Ledger
from tfapp.feed.wire import Line

BROKEN_LIMIT = 60.0  # seconds that an application runs on without a program until the feed fails
STALL_TIMEOUT = 600.0  # seconds
NOT_BEGUN = (
    "Spark has begun no task that sends: it computes the data first, or its executors have no free "
    "slot"
)


class View(NamedTuple):
    """A state of the application. `addresses`: instance -> "host:port" of the feed port, of all
    instances of this generation that are fed; {} while they are not all known. `ended`: the verdict
    in a sentence, "" while the application is not over. `running`: whether the programs of this
    generation run; False while they are formed, waited for or stopped. `done`: instances whose
    programs have ended with exit code 0. `last_lines`: those of the program that has failed."""

    generation: int
    addresses: Mapping[str, str]
    ended: str = ""
    succeeded: bool = False
    running: bool = True
    done: frozenset[str] = frozenset()
    last_lines: str = ""


class BrokenFeed(NamedTuple):
    """The loss of a program. `since`: monotonic time."""

    since: float
    instance: str


class ApplicationEndedError(Exception):
    """The application has ended with a verdict while it was fed."""


class FedProgram:
    """A program that is fed, in one generation."""

    def __init__(self, instance: str, number: int, line: Line):
        self.instance, self.number, self.line = instance, number, line
        self.ready: Mapping[str, Any] | None = None
        self.answers = False
        self.is_begun = False  # whether it may take rows
        self.took = 0  # rows
        self.consumed = 0  # rows after which it has asked for more
        self.is_held = False  # whether it must hold
        self.holds: int | None = None  # batches that it has taken, once it holds


class FeedState:
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
        self.view = View(0, {})  # the newest state of the application
        self.fed = View(0, {})  # the generation whose programs are connected
        self.programs: dict[str, FedProgram] = {}
        self.live = False  # whether this generation's programs take rows
        self.stopping = False  # whether programs must hold, because one has stopped the feed
        self.broken: BrokenFeed | None = None
        self.features: list[dict[str, Any]] | None = None
        self.published: tuple[int, int, bool] | None = None
        self.error = ""
        self.short: dict[entries.Part, str] = {}  # messages of last attempts that saw too few rows
        self.data = 0  # number of the data that is fed now, from 1
        self.pass_number = self.partitions = 0
        self.asked_by: Any = None  # the SparkContext of tasks that ask the programs
        self.begun = 0  # tasks of the present job that have begun
        self.progress = time.monotonic()  # time of the last progress
        self.closed = False
        self.unasked = False  # whether no more questions follow
        self.is_fed = False  # whether `feed` was called
        self.told = 0  # lost rows that the user knows of
        self.keeps = False  # whether a loss of rows of finished passes is an error
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

    def look(self, view: View) -> None:
        """Takes the newest state of the application. Neither the time without progress nor that
        without a program counts while the programs of another generation are waited for: the
        application has limits of its own for that."""
        self.view = view
        if not self._runs():
            self.progress = time.monotonic()
            if self.broken is not None:
                self.broken = self.broken._replace(since=time.monotonic())

    def _runs(self) -> bool:
        """Whether the application runs the generation that is fed."""
        return self.view.running and self.view.generation == self.fed.generation

    def check_broken(self) -> None:
        """Raises FeedError if the feed has failed, or if a program is gone and the application goes
        on without it: for BROKEN_LIMIT seconds, or until the others wait for rows if it has ended
        with exit code 0."""
        if self.broken is not None:
            gone = self.broken.instance
            late = self._runs() and time.monotonic() - self.broken.since > BROKEN_LIMIT
            if late or (self.has_succeeded(gone) and self._others_wait()):
                why = " (its program has ended with exit code 0)" * self.has_succeeded(gone)
                self.fail(
                    f"the connection to {gone} has ended{why}, and the application goes on. A "
                    "program that wants no more calls context.feed.stop(), or DataFeed.terminate()"
                    ", before it ends; programs that are fed begin again together "
                    "(RestartCluster), not one alone (RestartInstance)"
                )
        if self.error:
            raise FeedError(self.error)

    def has_succeeded(self, instance: str) -> bool:
        """Whether the program that is fed at `instance` has ended with exit code 0."""
        if self.view.ended:
            return self.view.succeeded
        return self.view.generation == self.fed.generation and instance in self.view.done

    def consumed(self, program: FedProgram) -> int:
        """The rows that a program has consumed: it has asked for more after them, or has ended with
        exit code 0."""
        return program.took if self.has_succeeded(program.instance) else program.consumed

    def _others_wait(self) -> bool:
        """Whether all programs that have not ended have taken all batches and asked for more."""
        others = [p for p in self.programs.values() if not self.has_succeeded(p.instance)]
        whole = self.whole()
        return bool(others) and all(0 < whole == each.took == each.consumed for each in others)

    def whole(self) -> int:
        """The rows that each program may take, as published."""
        batches, rest, _ = self.published or (0, 0, False)
        return batches * self.batch() + rest

    def over(self) -> str:
        """Why no program answers questions any more."""
        if not self.view.ended:
            return "the feed is closed"
        words = f"{self.name} has ended, and its programs answer no more: {self.view.ended}"
        return f"{words}\n{self.view.last_lines}".strip()

    def stalled(self) -> str:
        """The likeliest reason why there is no progress."""
        silent = [name for name in self.fed.addresses if name not in self.programs]
        silent += [p.instance for p in self.programs.values() if p.ready is None]
        if not self.fed.addresses:
            return "no program of the application exports a feed port"
        if silent:
            return f"no rows were asked for by {', '.join(silent)}"
        slow = [p.instance for p in self.programs.values() if p.took < self.whole()]
        if slow:
            return f"there are batches for {', '.join(slow)}, and the program takes none"
        if self.idle():
            return "the driver feeds nothing at the moment"
        if not self.begun:
            return NOT_BEGUN
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
        self.changed.notify_all()
        self.moved.notify_all()

    def publish(self) -> None:
        """Tells the programs the number of batches that they may take, if it has changed."""
        now = self.ledger.batches, self.ledger.rest, self.ledger.over
        if now != self.published and self.live and not self.error:
            self.published = now
            if now[2]:
                self.before_the_end()
            self.say_all({"batches": now[0], "rest": now[1], "over": now[2]})

    def say_all(self, what: dict[str, Any]) -> None:
        for program in self.programs.values():
            try:
                program.line.say(what)
            except OSError:
                program.line.end()  # the thread that reads the connection notices

    def columns(self) -> Sequence[str] | None:
        """The columns that the programs ask for, None for all."""
        found: Sequence[str] | None = self.asked_for("columns")
        return found

    def asked_for(self, key: str) -> Any:
        """What the programs have asked for, see "ready" in tfapp.feed.lines; None if they have not
        yet."""
        with self.changed:
            for program in self.programs.values():
                return (program.ready or {}).get(key)
        return None

    def batch(self) -> int:
        for program in self.programs.values():
            return int((program.ready or {"batch": 1})["batch"])
        return 1
