"""Publishes the counters of a feed, so that they are in the application's status."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tfapp import threads
from tfapp.contract.status import FeedStatus
from tfapp.feed.driver.state import FeedState

EVERY = 1.0  # seconds between two measurements
LOOKS = 6  # number of measurements over which the speed is averaged
MAX_ERROR = 500  # characters
STILL = 3.0  # seconds without progress after which the status says why


class Board(Protocol):
    """Publishes counters. Called by one thread at a time."""

    def show(self, feed: FeedStatus) -> None:
        """Publishes newer counters. Errors are ignored."""

    def close(self) -> None:
        """Called after the last counters."""


class Counters:
    """Publishes the counters once a second if they have changed. Also publishes them before the
    programs are told that the feed is over, so that they are there if the application ends then."""

    def __init__(self, state: FeedState, board: Board, clock: Callable[[], float] = time.monotonic):
        self._state, self._board, self._clock = state, board, clock
        self._showing = threading.Lock()  # never held while waiting for `state.changed`
        self._made = self._shown = 0  # numbers of the newest counters made, and published
        self._last: FeedStatus | None = None
        self._looks: deque[tuple[float, int]] = deque([(clock(), 0)], LOOKS)  # (time, rows)
        self._begun: float | None = None  # time of the last measurement before the first row
        self._seconds = 0.0
        state.before_the_end = self.show

    def start(self) -> None:
        """Starts a thread that publishes the counters until the feed is closed or the application
        has ended."""
        threads.keep("tfapp-feed-counters", self._watch)

    def show(self) -> None:
        with self._state.changed:
            now = self._now()
            if now == self._last or not self._state.is_fed:
                return
            self._last = now
            self._made += 1
            number = self._made
        with self._showing:
            if number > self._shown:  # another thread may have shown newer ones
                self._shown = number
                self._board.show(now)

    def _watch(self) -> None:
        while not self._state.view.ended:
            self.show()
            if self._state.closed:
                break
            time.sleep(EVERY)
        with self._showing:
            self._board.close()

    def _now(self) -> FeedStatus:
        state, ledger = self._state, self._state.ledger
        over = ledger.over
        rows = [min(count, ledger.each) if over else count for count in ledger.committed]
        names = {program.number: program.instance for program in state.programs.values()}
        total = ledger.before + sum(rows)
        speed = self._speed(total)
        goes_on = not over and not state.error
        still = self._clock() - state.progress > STILL
        return FeedStatus(
            rows=total,
            instances={names[n]: count for n, count in enumerate(rows) if n in names},
            seconds=round(self._seconds, 1),
            rows_per_second=speed if goes_on and state.live else None,
            dropped=ledger.dropped if over else 0,
            lost=ledger.lost,
            over=over,
            stopped=ledger.stopped,
            waits=state.stalled() if goes_on and still else "",
            error=state.error[:MAX_ERROR],
        )

    def _speed(self, total: int) -> float:
        """Rows a second over the last measurements."""
        time, before = self._looks[-1]
        now = self._clock()
        if total < before:  # the programs were restarted, and lack some of the rows
            self._looks.clear()
        elif total > before:
            self._begun = time if self._begun is None else self._begun
            self._seconds = now - self._begun
        self._looks.append((now, total))
        first, rows = self._looks[0]
        return round((total - rows) / (now - first), 1) if now > first else 0.0
