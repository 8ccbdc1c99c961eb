"""The ledger under random histories: attempts that fail, are cut off, are superseded or come back
late, programs that are slow, stop or begin again with or without a state."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterable

import pytest

from tfapp.feed.driver.ledger import (
    DROP,
    SHARE,
    Changed,
    Finished,
    Ledger,
    Opened,
    Piece,
    Short,
    Superseded,
    window_order,
)
from tfapp.feed.intervals import DIGESTS

HISTORIES = 4_000
SOME = 250  # of them: what all of 82 planted faults show at all, they show in the first 220
ROW = 7  # bytes of a row

Row = tuple[tuple[int, int], int]  # (partition, number of the row)


def held(ledger: Ledger) -> list[int]:
    """Bytes that were granted and not taken, by worker."""
    return [worker.held for worker in ledger._workers]


class Task:
    """An attempt at a partition, one step at a time. `rows`: those that it sees, which are not all
    where it is `cut` off."""

    def __init__(self, history: History, part: tuple[int, int], attempt: int):
        self.history, self.part, self.attempt = history, part, attempt
        self.rows = history.sizes[part[1]]
        self.cut = history.draw.random() < 0.1
        if self.cut:
            self.rows = history.draw.randint(0, self.rows)
        self.at = 0
        self.flying: list[tuple[int, int, int]] = []  # (worker, first, rows)
        answer = history.ledger.open(part, attempt)
        self.over = not isinstance(answer, Opened)
        self.done = list(answer.done) if isinstance(answer, Opened) else []
        if isinstance(answer, Opened):
            self._check_that_all_is_compared(answer)

    def _check_that_all_is_compared(self, answer: Opened) -> None:
        """The attempt must know the digest of every row that a program has seen."""
        known = [one for one in (*answer.done, *answer.sent) if one.digest is not None]
        for one in known:
            assert one.digest == sum(range(one.start, one.end)) % DIGESTS
        compared = {row for one in known for row in range(one.start, one.end)}
        assert all(row in compared for one in answer.done for row in range(one.start, one.end))

    def step(self) -> bool:
        """Goes on. False where it can do nothing but wait."""
        ledger, draw = self.history.ledger, self.history.draw
        if self.flying and draw.random() < 0.5:
            self._deliver()
            return True
        while self.done and self.done[0].start <= self.at:
            self.at = self.done.pop(0).end
        if self.at >= self.rows:
            if self.flying:
                self._deliver()
                return True
            answer = ledger.finish(self.part, self.attempt, self.rows)
            assert not isinstance(answer, Changed)
            assert self.cut or not isinstance(answer, Short)
            self.over = True
            # A task can end badly after its last row.
            if isinstance(answer, Finished) and not self.cut and self.history.draw.random() < 0.9:
                ledger.confirm(self.part)
            return True
        end = min([self.rows, *(one.start for one in self.done[:1])])
        count = min(end - self.at, draw.choice((1, 50, 500)))
        answer = ledger.grant(self.part, self.attempt, self.at, count, count * ROW)
        if isinstance(answer, Superseded):
            self.over = True
        elif isinstance(answer, Piece):
            assert 1 <= answer.rows <= count
            self.flying.append((answer.worker, self.at, answer.rows))
            self.at += answer.rows
        elif self.flying:
            self._deliver()
        else:
            return False
        return True

    def _deliver(self) -> None:
        worker, first, rows = self.flying.pop(0)
        digest = sum(range(first, first + rows)) % DIGESTS
        entered = self.history.ledger.commit(worker, self.part, self.attempt, first, rows, digest)
        if entered:
            self.history.orders[worker] += [(self.part, row) for row in range(first, first + rows)]
        else:
            self.over = True


class History:
    """One feed, from its beginning to its end."""

    def __init__(self, number: int):
        self.draw = draw = random.Random(number)
        self.sizes = [draw.choice((0, 1, 63, 200, 700)) for _ in range(draw.randint(1, 4))]
        self.passes = draw.choice((1, 1, 2))
        self.capacity = draw.choice((ROW, 300 * ROW, 10_000 * ROW))
        self.rest = draw.choice((DROP, SHARE))
        self.batch = draw.choice((1, 8, 64, 300))
        self.window = draw.choice((1, 1, 100))
        self.ledger = Ledger(self.capacity, self.rest)
        self.generation = 0
        self.attempts = 0
        self.learned: list[Row] = []  # what the model of this generation had at its beginning
        self.saved: tuple[int, int, list[list[Row]], list[Row]] | None = None
        self.restarts = draw.choice((0, 0, 1, 3))
        self.settles = draw.random() < 0.3  # passes are not fed again
        self.settled: set[int] = set()
        self.begin(None)

    def begin(self, state: tuple[int, list[int]] | None) -> None:
        self.generation += 1
        workers = self.draw.randint(1, 4)
        self.ledger.begin(
            self.generation, workers, self.batch, window=self.window, seed=3, state=state
        )
        self.orders: list[list[Row]] = [[] for _ in range(workers)]
        self.taken = [0] * workers
        self.tasks: list[Task] = []
        self.base = list(self.learned)
        # Rows that neither the model had nor anybody gets any more.
        self.gone = self.everything(self.settled) - Counter(self.base)
        assert self.ledger.before == len(self.base) + sum(self.gone.values())

    def everything(self, passes: Iterable[int]) -> Counter[Row]:
        return Counter(
            ((number, part), row)
            for number in passes
            for part, size in enumerate(self.sizes)
            for row in range(size)
        )

    def seen(self, generation: int, worker: int, rows: list[Row], batches: int) -> list[Row]:
        """The rows of the first batches of a worker, in the order of its program."""
        if self.window > 1:
            windows = [rows[at : at + self.window] for at in range(0, len(rows), self.window)]
            rows = [
                window[place]
                for number, window in enumerate(windows)
                for place in window_order(3, generation, worker, number, len(window))
            ]
        return rows[: batches * self.batch]

    def run(self) -> None:
        for number in range(self.passes):
            self.run_pass(number)
            if self.settles:
                self.ledger.settle(number)
                self.settled.add(number)
        self.ledger.end()
        while any(taken < self.ledger.batches for taken in self.taken):
            self.take()
        if self.restarts and self.draw.random() < 0.3:
            self.restart()
            self.run()

    def run_pass(self, number: int) -> None:
        idle = 0
        while parts := self.ledger.unfinished(number, len(self.sizes)):
            self.tasks = [task for task in self.tasks if not task.over]
            events = [self.take]
            if self.draw.random() < 0.1 or not self.tasks:
                self.attempts += 1
                part = (number, self.draw.choice(parts))
                self.tasks.append(Task(self, part, self.attempts))
            for task in self.draw.sample(self.tasks, len(self.tasks)):
                events.append(task.step)
            moved = [event() for event in events]
            idle = 0 if any(moved) else idle + 1
            assert idle < 200, (self.ledger.committed, held(self.ledger), self.taken)
            if self.tasks and self.draw.random() < 0.02:
                lost = self.tasks.pop(self.draw.randrange(len(self.tasks)))
                self.ledger.abandon(lost.part, lost.attempt)
            if self.restarts and self.draw.random() < 0.01:
                self.restart()
                for earlier in range(number):
                    self.run_pass(earlier)

    def take(self) -> bool:
        """A program takes a batch that it may have."""
        mine = [w for w, taken in enumerate(self.taken) if taken < self.ledger.batches]
        if not mine:
            return False
        worker = self.draw.choice(mine)
        self.taken[worker] += 1
        assert len(self.orders[worker]) >= self.taken[worker] * self.batch
        self.ledger.take(worker, self.taken[worker] * self.batch)
        if self.draw.random() < 0.2:
            self.saved = (self.generation, min(self.taken), self.orders, self.base)
        return True

    def restart(self) -> None:
        self.restarts -= 1
        if self.saved is not None and self.draw.random() < 0.6:
            generation, least, orders, base = self.saved
            rows = [self.seen(generation, w, one, least) for w, one in enumerate(orders)]
            self.learned = [row for seen in (base, *rows) for row in seen]
            self.begin((generation, [least] * len(orders)))
            return
        for worker, taken in enumerate(self.taken):
            rows = self.seen(self.generation, worker, self.orders[worker], taken)
            self.learned = self.learned + rows
        self.begin(None)

    def check(self) -> None:
        ledger = self.ledger
        assert ledger.complete
        assert ledger.over
        given = Counter(row for rows in self.orders for row in rows)
        somebodys = given + Counter(self.base) + self.gone
        assert somebodys == self.everything(range(self.passes)), "every row is somebody's, once"
        each = ledger.batches * self.batch + ledger.rest
        assert all(len(rows) >= each for rows in self.orders), "all workers get as many"
        assert ledger.dropped == sum(given.values()) - each * len(self.orders)
        least = min(map(len, self.orders))
        assert ledger.batches == least // self.batch
        assert ledger.rest == (least % self.batch if self.rest == SHARE else 0)
        assert held(ledger) == [
            ROW * (len(rows) - taken * self.batch) for rows, taken in zip(self.orders, self.taken)
        ]


@pytest.mark.parametrize(
    ("first", "end"), [(0, SOME), pytest.param(SOME, HISTORIES, marks=pytest.mark.slow)]
)
def test_every_row_is_given_once_and_evenly_and_nothing_blocks(first, end):
    for number in range(first, end):
        history = History(number)
        try:
            history.run()
            history.check()
        except BaseException as error:
            raise AssertionError(f"history {number}") from error


def test_the_rest_of_a_pass_that_is_given_up_is_no_rest():
    """What workers had of it stays; a late task of it changes nothing."""
    ledger = Ledger(1000)
    ledger.begin(1, 2, batch=2)
    part, other = (0, 0), (1, 0)
    assert ledger.open(part, 0) == Opened(())
    assert ledger.grant(part, 0, 0, 4, 4 * ROW) == Piece(0, 2)
    assert ledger.grant(part, 0, 2, 2, 2 * ROW) == Piece(1, 2)
    assert ledger.commit(0, part, 0, 0, 2, 5)
    ledger.give_up(0)
    assert not ledger.commit(1, part, 0, 2, 2, 5)
    assert ledger.grant(part, 0, 4, 2, 2 * ROW) == Superseded()
    assert ledger.open(part, 1) == Finished()
    assert ledger.open(other, 2) == Opened(())
    assert ledger.grant(other, 2, 0, 2, 2 * ROW) == Piece(1, 2)
    assert ledger.commit(1, other, 2, 0, 2, 6)
    ledger.finish(other, 2, 2)
    ledger.confirm(other)
    ledger.end()
    assert (ledger.complete, ledger.batches, ledger.dropped) == (True, 1, 0)
    # Programs that begin again get the other data alone.
    ledger.begin(2, 2, batch=2)
    assert (ledger.open(part, 3), ledger.open(other, 4)) == (Finished(), Opened(()))
    assert ledger.lost == 2


def test_the_ledger_of_an_endless_stream_does_not_grow():
    """And programs that begin again go on from their state, or from the next data."""
    ledger = Ledger(1000)
    ledger.begin(1, 2, batch=2)
    sizes = []
    for number in range(200):
        part = (number, 0)
        assert ledger.open(part, number) == Opened(())
        for first in (0, 2):
            worker, count = ledger.grant(part, number, first, 4 - first, (4 - first) * ROW)
            assert ledger.commit(worker, part, number, first, count, 5)
        for worker in range(2):
            ledger.take(worker, 2 * number + 2)
        ledger.finish(part, number, 4)
        ledger.confirm(part)
        ledger.settle(number)
        assert (ledger.open(part, number + 1), ledger.is_finished(part)) == (Finished(), True)
        assert ledger.unfinished(number, 1) == []
        sizes.append(len(pickle.dumps(ledger)))
    assert sizes[-1] < sizes[9] + 10 * 190, "a few bytes for each"
    assert ledger.open((200, 0), 200) == Opened(())
    ledger.begin(2, 2, batch=2, state=(1, [150, 150]))
    assert (ledger.lost, ledger.before, ledger.batches) == (200, 800, 0)
