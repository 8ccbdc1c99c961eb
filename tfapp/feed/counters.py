"""What a feed has done, for everybody who looks at the application."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tfapp.contract.status import FeedStatus
from tfapp.feed.state import State
from tfapp.feed.wire import start_thread

EVERY = 1.0  # seconds between two looks
LOOKS = 6  # over which the speed is measured
MAX_ERROR = 500  # characters
STILL = 3.0  # seconds in which nothing has moved, after which it is said why


class Board(Protocol):
    """Where counters are shown. Called by one thread at a time."""

    def show(self, feed: FeedStatus) -> None:
        """Shows newer ones; where that is impossible, nothing happens."""

    def close(self) -> None:
        """No more come."""


class Counters:
    """Shows them once a second as long as they change; and before the programs hear that no more
    rows come, so that an application which ends then has the last ones."""

    def __init__(self, state: State, board: Board, clock: Callable[[], float] = time.monotonic):
        self._state, self._board, self._clock = state, board, clock
        self._showing = threading.Lock()  # nobody waits for `state.changed` with it
        self._made = self._shown = 0  # numbers of the newest counters
        self._last: FeedStatus | None = None
        self._looks: deque[tuple[float, int]] = deque([(clock(), 0)], LOOKS)  # (time, rows)
        self._begun: float | None = None  # when the first row came, as far as it was looked at
        self._seconds = 0.0
        state.before_the_end = self.show

    def start(self) -> None:
        """Shows them from now on, in a thread of its own, until the feed is closed or the
        application has ended."""
        start_thread(self._watch)

    def show(self) -> None:
        """Shows the counters if they are news."""
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
        """Rows a second over the last looks."""
        time, before = self._looks[-1]
        now = self._clock()
        if total < before:  # the programs have begun again, without some of them
            self._looks.clear()
        elif total > before:
            self._begun = time if self._begun is None else self._begun
            self._seconds = now - self._begun
        self._looks.append((now, total))
        first, rows = self._looks[0]
        return round((total - rows) / (now - first), 1) if now > first else 0.0
