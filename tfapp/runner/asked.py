"""What takes seconds, and is asked of a runner while its program runs."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Generic, TypeVar

from tfapp import threads

_MOST_WAITING = 4  # requests; more are not answered

Q = TypeVar("Q")
A = TypeVar("A")


class Asked(Generic[Q, A]):
    """Answers requests of one kind, one after the other, in a thread of its own, which begins with
    the first. `take(request)` makes the answer, None for none; `tell` reports it. `what`: the words
    for that in the log of an error."""

    def __init__(self, what: str, take: Callable[[Q], A | None], tell: Callable[[A], None]):
        self._what, self._take, self._tell = what, take, tell
        self._requests: queue.SimpleQueue[Q] = queue.SimpleQueue()
        self._started = False

    def ask(self, request: Q) -> None:
        if self._requests.qsize() >= _MOST_WAITING:
            return
        self._requests.put(request)
        if not self._started:
            self._started = True
            threads.keep("tfapp-asked", self._run)

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            try:
                taken = self._take(request)
                if taken is not None:
                    self._tell(taken)
            except Exception as error:  # nothing ends for an answer
                threads.say(self._what, error)
