"""The feed in the driver: submits Spark jobs whose tasks send rows, and waits for the programs.
`programs` has the connections to the programs, `tasks` answers Spark's tasks."""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfapp import threads
from tfapp.errors import FeedError
from tfapp.feed.driver import ledger as entries
from tfapp.feed.driver.counters import Board, Counters
from tfapp.feed.driver.data import FedData
from tfapp.feed.driver.ledger import Ledger
from tfapp.feed.driver.programs import LOOK_EVERY, Programs
from tfapp.feed.driver.state import NOT_BEGUN, STALL_TIMEOUT, FeedState, View
from tfapp.feed.driver.tasks import Tasks
from tfapp.feed.task.sender import FeedOrder
from tfapp.feed.wire import Credentials

SLOT_PATIENCE = 10.0  # seconds without a task after which the user is told
CAPACITY = 16 << 20  # bytes of rows that one program may hold

log = logging.getLogger(__name__)


class FeedResult(NamedTuple):
    """The result of a feed. `rows`: rows that were handed over to the programs so far. `batches`:
    batches that each program gets in the last generation; after a stop some may still be about to
    take theirs. `dropped`: rows at the end that were too few for a full batch of every program.
    `lost`: rows of programs that failed and had no checkpoint with them. `stopped`: whether the
    programs stopped the feed, or ended before its end. `consumed`: those of `rows` that are not
    lost, and after which their program has asked for another batch or has ended with exit code
    0."""

    rows: int
    batches: int
    dropped: int
    lost: int
    stopped: bool
    consumed: int = 0


class Feeder:
    """Feeds one application, until `close`. Thread-safe."""

    def __init__(
        self,
        look: Callable[[], View],
        credentials: Credentials,
        host: str,
        board: Board,
        *,
        name: str = "feed",
        ports: Sequence[int] = (0,),
        rest: str = entries.DROP,
        note: Callable[[str], None] = log.info,
        words: Callable[[Exception], str] = str,
    ):
        """`look`: returns the application's present state. `host`: the name or address by which
        executors reach this driver. `board`: publishes the counters. `ports`: the ports to try; the
        first free one is used. `rest`: DROP or SHARE, see `Ledger`. `note`: called with sentences
        for the user. `words`: what an error of Spark says. FeedError if no port is free."""
        self._words = words
        self._state = FeedState(name, Ledger(CAPACITY, rest), note)
        self._credentials = credentials
        self._passes: list[tuple[int, FedData, int, int]] = []  # (pass, source, partitions, data)
        self._numbers, self._datas = itertools.count(), itertools.count(1)
        self._feeding = threading.Lock()  # held by `feed`: one data set is fed at a time
        self._calls = 0  # calls of `feed` that have not returned
        self._tasks = Tasks(self._state, credentials, ports)
        port = self._tasks.port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._state.idle = lambda: self._next_job() is None
        Counters(self._state, board).start()
        Programs(self._state, look, credentials)

    # ---- For the driver's user -----------------------------------------------------------------
    def feed(
        self,
        data: Any,
        passes: int = 1,
        final: bool = True,
        stall_timeout: float = STALL_TIMEOUT,
        consumed: bool = False,
    ) -> FeedResult:
        """Feeds all rows of `data`, `passes` times. Returns when the programs have received them
        or have stopped the feed. If the data is `final`, waits until the programs have taken all
        rows; with `consumed`, until they have consumed all full batches, and a later loss of these
        rows is an error. Data of calls that have begun before `end` is fed.

        Raises FeedError, also after `stall_timeout` seconds without progress, and for data after
        the end of the feed; ApplicationEndedError; and the errors of Spark."""
        with self._state.changed:
            if self._state.unasked and not self._state.ledger.stopped:
                raise FeedError("the feed was ended: no data can come after end_feed()")
            self._calls += 1
        try:
            with self._feeding:
                return self._feed(data, passes, final, stall_timeout, consumed)
        finally:
            with self._state.changed:
                self._calls -= 1
                self._end_if_asked()
                self._state.wake()

    def _feed(
        self, data: Any, passes: int, final: bool, stall_timeout: float, consumed: bool
    ) -> FeedResult:
        if self._state.ledger.stopped:
            return self._result()
        if self._state.ledger.ended:
            raise FeedError(
                "the feed has ended with data that was final: give final=False to each call but "
                "the last, or call end_feed() after the last"
            )
        self._state.stall_timeout = stall_timeout
        self._state.is_fed = True
        source = FedData(data)
        if not self._wait_for_programs():
            return self._result()
        source.check(self._state.columns())
        number = next(self._datas)
        order = FeedOrder(self.address, self._credentials.packed(), number)
        partitions = source.prepare(order, self._state.columns())
        with self._state.changed:
            for _ in range(passes):
                self._passes.append((next(self._numbers), source, partitions, number))
            self._state.progress = time.monotonic()
        try:
            self._run_jobs(final, consumed)
        except BaseException:
            self._give_up(number)
            raise
        with self._state.changed:
            # Programs that restart later cannot get these rows: nothing sends them any more.
            ledger = self._state.ledger
            for number, _, partitions, _ in self._passes:
                if not ledger.unfinished(number, partitions):  # the feed was not stopped
                    ledger.settle(number)
            self._passes.clear()
            self._state.keeps = self._state.keeps or consumed
        return self._result()

    def order(self, context: Any) -> FeedOrder:
        """The order for tasks of the SparkContext `context` that ask the programs. FeedError after
        the end of the feed."""
        with self._state.changed:
            if self._state.unasked:
                raise FeedError("the feed was ended: nothing can be asked after end_feed()")
            self._state.asked_by = context
        return FeedOrder(self.address, self._credentials.packed(), 0)

    def end(self, wait: bool = True) -> FeedResult:
        """Ends the feed after the data of calls of `feed` that have begun: no more can follow. With
        `wait`, returns when the programs have taken all rows."""
        with self._state.changed:
            if not self._state.unasked:
                self._state.unasked = True
                self._state.say_all({"unasked": True})
                self._end_if_asked()
            self._state.progress = time.monotonic()
            while wait and (self._calls or (self._state.data and not self._is_done(final=True))):
                self._state.changed.wait(LOOK_EVERY)
                self._state.check()
        return self._result()

    def _end_if_asked(self) -> None:
        if self._state.unasked and not self._calls:
            self._state.ledger.end()
            self._state.publish()

    @property
    def stopped(self) -> bool:
        """Whether the programs have stopped the feed, or have ended."""
        with self._state.changed:
            return self._state.ledger.stopped or bool(self._state.view.ended)

    def close(self) -> None:
        """Closes all connections. Programs that wait for rows fail."""
        with self._state.changed:
            self._state.closed = True
            for program in self._state.programs.values():
                program.line.end()
            self._state.wake()
        self._tasks.close()

    def _result(self) -> FeedResult:
        with self._state.changed:
            ledger = self._state.ledger
            programs = self._state.programs.values()
            got = ledger.before + sum(program.took for program in programs)
            stopped = ledger.stopped or bool(self._state.view.ended and not ledger.complete)
            dropped = ledger.dropped if ledger.over else 0
            consumed = ledger.before - ledger.lost + sum(map(self._state.consumed, programs))
            return FeedResult(got, ledger.batches, dropped, ledger.lost, stopped, consumed)

    def _wait_for_programs(self) -> bool:
        """Waits until all programs are ready. Returns False if they take no rows: they have stopped
        the feed, or have succeeded without it."""
        with self._state.changed:
            self._state.progress = time.monotonic()
            while not self._state.live:
                self._state.check()
                if self._state.ledger.stopped or self._state.view.ended:
                    return False
                self._state.changed.wait(LOOK_EVERY)
            return True

    def _give_up(self, data: int) -> None:
        """Gives up the rows of `data` that the programs have not received, also for later calls of
        `feed`."""
        with self._state.changed:
            for number, *_ in (each for each in self._passes if each[3] == data):
                self._state.ledger.give_up(number)
            self._passes = [each for each in self._passes if each[3] != data]
            self._state.wake()

    # ---- Jobs ----------------------------------------------------------------------------------
    def _is_done(self, final: bool, consumed: bool = False) -> bool:
        with self._state.changed:
            view = self._state.view
            if self._state.ledger.stopped or (view.ended and view.succeeded):
                return True
            self._state.check()
            if not self._state.live or self._next_job() is not None:
                return False
            programs = self._state.programs.values()
            if not final:
                whole = self._state.ledger.batches * self._state.batch() if consumed else 0
                return all(self._state.consumed(program) >= whole for program in programs)
            if not self._state.ledger.complete:
                self._state.ledger.end()
                self._state.publish()
            if self._state.published is None:
                return False
            return all(program.took >= self._state.whole() for program in programs)

    def _run_jobs(self, final: bool, consumed: bool) -> None:
        while not self._is_done(final, consumed):
            todo = self._next_job()
            if todo is None:
                with self._state.changed:
                    self._state.changed.wait(LOOK_EVERY)
                    self._state.check()
                continue
            self._run_job(*todo)

    def _next_job(self) -> tuple[int, FedData, list[int], int] | None:
        """The next job, (pass, source, partitions, data): partitions of which the programs have not
        received all rows. None if there are none, or no programs that take rows."""
        with self._state.changed:
            if not self._state.live:
                return None
            for number, source, count, data in self._passes:
                parts = self._state.ledger.unfinished(number, count)
                if parts:
                    return number, source, parts, data
            return None

    def _run_job(self, number: int, source: FedData, parts: list[int], data: int) -> None:
        """Runs a Spark job that sends the partitions `parts`, and waits until it has ended or must
        be cancelled."""
        from pyspark import InheritableThread

        group = f"tfapp-feed-{self._state.feed_id}-{secrets.token_hex(4)}"
        errors: list[Exception] = []
        over = threading.Event()
        with self._state.changed:
            self._state.pass_number, self._state.data = number, data
            self._state.partitions = self._passes[0][2]  # as many in all that are fed now
            self._state.begun = 0
            self._state.progress = time.monotonic()
            generation = self._state.ledger.generation

        def run() -> None:
            try:
                source.run(parts, group, f"{self._state.name}: feed")
            except Exception as error:  # Spark's Java exceptions have no class of their own
                errors.append(error)
            with self._state.changed:
                over.set()
                self._state.changed.notify_all()

        threads.start_surely("tfapp-feed-job", run, kind=InheritableThread)
        cancelled = False
        try:
            told = time.monotonic() + SLOT_PATIENCE
            while not over.is_set():
                with self._state.changed:
                    if not over.is_set():
                        self._state.changed.wait(LOOK_EVERY)
                    self._state.check()
                    if not self._state.begun and time.monotonic() > told:
                        told = float("inf")
                        self._state.note(f"{self._state.name}: {NOT_BEGUN}")
                    wanted = not self._state.ledger.stopped and not self._state.view.ended
                    cancelled = not wanted or not self._state.live
                    cancelled = cancelled or generation != self._state.ledger.generation
                if cancelled:
                    break
        finally:
            while not over.is_set():  # the first call may come before Spark has started the job
                with contextlib.suppress(Exception):  # Spark is stopped at the same time
                    source.context.cancelJobGroup(group)
                over.wait(LOOK_EVERY)
        ended = set(parts) if not errors else self._ended(source, group)
        with self._state.changed:
            for part in ended:
                self._state.ledger.confirm((number, part))
            self._state.publish()
            self._state.wake()
            self._state.check()
        if errors and not cancelled:
            words = next(iter(self._state.short.values()), self._words(errors[0]))
            raise FeedError(f"Spark could not send the data: {words}")

    def _ended(self, source: FedData, group: str) -> set[int]:
        """The partitions whose tasks have ended well, and which need not be read again."""
        try:
            return source.ended(group)
        except Exception:  # of Java; then all partitions are read again
            log.info("Spark does not say which of its tasks have ended", exc_info=True)
            return set()
