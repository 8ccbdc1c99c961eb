"""In the driver: has Spark run the tasks that send, and waits for what comes of them. `programs`
has the connections to the programs, `tasks` answers Spark's tasks."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfapp.errors import FeedError
from tfapp.feed import ledger as entries
from tfapp.feed.counters import Board, Counters
from tfapp.feed.ledger import Ledger
from tfapp.feed.programs import LOOK_EVERY, Programs
from tfapp.feed.sender import Order
from tfapp.feed.source import Source
from tfapp.feed.state import STALL_TIMEOUT, ApplicationEndedError, State, View
from tfapp.feed.tasks import Tasks
from tfapp.feed.wire import Credentials

SLOT_PATIENCE = 10.0  # seconds until it is said that no task has begun
CAPACITY = 16 << 20  # bytes that one program holds

log = logging.getLogger(__name__)


class FeedResult(NamedTuple):
    """What came of a feed. `rows`: that programs got; `batches`: that each program got in its
    last generation; `dropped`: rows at the end that made no full batch for everyone; `lost`: rows
    of programs that failed without a state that has them; `stopped`: whether the programs wanted
    no more."""

    rows: int
    batches: int
    dropped: int
    lost: int
    stopped: bool


class Feeder:
    """Feeds one application, from its making until `close`. Usable from any thread."""

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
        capacity: int = CAPACITY,
        note: Callable[[str], None] = log.info,
    ):
        """`look`: shows the application. `host`: this driver's, as executors call it. `board`: gets
        what the feed has done. `ports`: of which the first free one is listened at. `note`: is told
        what a user should know. FeedError when it cannot listen."""
        self._state = State(name, Ledger(capacity, rest), note)
        self._credentials = credentials
        self._passes: list[tuple[int, Source, int, int]] = []  # (pass, source, partitions, data)
        self._numbers, self._datas = itertools.count(), itertools.count(1)
        self._feeding = threading.Lock()  # data is fed one after the other
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
    ) -> FeedResult:
        """Feeds all rows of `data`, `passes` times. Returns when they are with the programs and,
        if it was the `final` data, when these have taken all of them, or want no more. FeedError,
        also when nothing moves for `stall_timeout` seconds; ApplicationEndedError; what Spark
        raises passes through."""
        with self._feeding:
            return self._feed(data, passes, final, stall_timeout)

    def _feed(self, data: Any, passes: int, final: bool, stall_timeout: float) -> FeedResult:
        if self._state.ledger.stopped:
            return self._result()
        if self._state.unasked:
            raise FeedError("the feed was ended: no data can come after end_feed()")
        self._state.stall_timeout = stall_timeout
        self._state.is_fed = True
        source = Source(data)
        self._wait_for_programs()
        source.check(self._state.columns())
        number = next(self._datas)
        order = Order(self.address, self._credentials.packed(), number)
        partitions = source.prepare(order, self._state.columns())
        with self._state.changed:
            for _ in range(passes):
                self._passes.append((next(self._numbers), source, partitions, number))
            self._state.progress = time.monotonic()
        try:
            self._run_jobs(final)
        except BaseException:
            self._give_up(number)
            raise
        with self._state.changed:
            # Programs that begin again later cannot have these rows: nobody sends them any more.
            ledger = self._state.ledger
            for number, _, partitions, _ in self._passes:
                if not ledger.unfinished(number, partitions):  # nobody has stopped it
                    ledger.settle(number)
            self._passes.clear()
        return self._result()

    def order(self, context: Any) -> Order:
        """What tasks of `context` that want answers need to know."""
        with self._state.changed:
            self._state.asked_by = context
        return Order(self.address, self._credentials.packed(), 0)

    def end(self, wait: bool = True) -> FeedResult:
        """No more data comes. Returns when the programs have taken all, unless with `wait`
        False."""
        with self._state.changed:
            self._state.unasked = True
            self._state.say_all({"unasked": True})
            self._state.ledger.end()
            self._state.publish()
            self._state.progress = time.monotonic()
            while wait and self._state.data and not self._is_done(final=True):
                self._state.changed.wait(LOOK_EVERY)
                self._state.check()
        return self._result()

    @property
    def stopped(self) -> bool:
        """Whether the programs want no more, or have ended."""
        with self._state.changed:
            return self._state.ledger.stopped or bool(self._state.view.ended)

    def close(self) -> None:
        """Ends every connection. Programs that wait for rows fail."""
        with self._state.changed:
            self._state.closed = True
            for program in self._state.programs.values():
                program.line.end()
            self._state.wake()
        self._tasks.close()

    def _result(self) -> FeedResult:
        with self._state.changed:
            ledger = self._state.ledger
            got = ledger.before + sum(program.took for program in self._state.programs.values())
            stopped = ledger.stopped or bool(self._state.view.ended and not ledger.complete)
            dropped = ledger.dropped if ledger.over else 0
            return FeedResult(got, ledger.batches, dropped, ledger.lost, stopped)

    def _wait_for_programs(self) -> None:
        with self._state.changed:
            self._state.progress = time.monotonic()
            while not self._state.live and not self._state.ledger.stopped:
                self._state.changed.wait(LOOK_EVERY)
                self._state.check()
                if self._state.view.ended:
                    raise ApplicationEndedError(self._state.view.ended)

    def _give_up(self, data: int) -> None:
        """What of it is not with the programs is not fed any more: not before other data either."""
        with self._state.changed:
            for number, *_ in (each for each in self._passes if each[3] == data):
                self._state.ledger.give_up(number)
            self._passes = [each for each in self._passes if each[3] != data]
            self._state.wake()

    # ---- Jobs ----------------------------------------------------------------------------------
    def _is_done(self, final: bool) -> bool:
        with self._state.changed:
            view = self._state.view
            if self._state.ledger.stopped or (view.ended and view.succeeded):
                return True
            self._state.check()
            if not self._state.live or self._next_job() is not None:
                return False
            if not final:
                return True
            if not self._state.ledger.complete:
                self._state.ledger.end()
                self._state.publish()
            each = self._state.published
            if each is None:
                return False
            whole = each[0] * self._state.batch() + each[1]
            return all(program.took >= whole for program in self._state.programs.values())

    def _run_jobs(self, final: bool) -> None:
        while not self._is_done(final):
            todo = self._next_job()
            if todo is None:
                with self._state.changed:
                    self._state.changed.wait(LOOK_EVERY)
                    self._state.check()
                continue
            self._run_job(*todo)

    def _next_job(self) -> tuple[int, Source, list[int], int] | None:
        """(pass, source, partitions, data) of which not all is with the programs."""
        with self._state.changed:
            if not self._state.live:
                return None
            for number, source, count, data in self._passes:
                parts = self._state.ledger.unfinished(number, count)
                if parts:
                    return number, source, parts, data
            return None

    def _run_job(self, number: int, source: Source, parts: list[int], data: int) -> None:
        """Has Spark send partitions, until that is done or there is a reason to end it."""
        from pyspark import InheritableThread

        group = f"tfapp-feed-{self._state.feed_id}-{secrets.token_hex(4)}"
        errors: list[Exception] = []
        over = threading.Event()
        with self._state.changed:
            self._state.pass_number, self._state.data = number, data
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

        InheritableThread(target=run, daemon=True).start()
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
                        self._state.note(
                            f"{self._state.name}: the feed waits for a free slot of executors"
                        )
                    wanted = not self._state.ledger.stopped and not self._state.view.ended
                    cancelled = not wanted or not self._state.live
                    cancelled = cancelled or generation != self._state.ledger.generation
                if cancelled:
                    break
        finally:
            while not over.is_set():  # a job that begins late is not cancelled the first time
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
            from tfapp.engines.spark.driver import first_words

            words = next(iter(self._state.short.values()), first_words(errors[0]))
            raise FeedError(f"Spark could not send the data: {words}")

    def _ended(self, source: Source, group: str) -> set[int]:
        """The partitions that need not be read again."""
        try:
            return source.ended(group)
        except Exception:  # of Java's; more is read again then
            log.info("Spark does not say which of its tasks have ended", exc_info=True)
            return set()
