"""The heartbeats of a runner, and the fence: the runner ends when no heartbeat has arrived for too
long. When a runner cannot reach its master for `lost` seconds, the coordinator may have replaced
its instance. Then its program must not run beside the replacement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tfapp import threads
from tfapp.errors import RefusedError, UnreachableError
from tfapp.runner.witness import ReplacedError, Witness

LOOKS, LOOK_EVERY = 6, 2.0  # of a witness in a row, seconds between two


class Heartbeat:
    """Calls `beat(state)` every `interval` seconds, and at once when the state changes. A state is
    any value. `lost(message)` is called once: when no beat has arrived for `limit` seconds (0:
    never), or when the master refuses a beat because it counts this container as ended. A `witness`
    who says that the master is lost counts as a beat, for as long as it may. Both are
    called in threads of their own, so that neither a call that hangs nor a busy runner delays the
    fence."""

    def __init__(
        self,
        beat: Callable[[Any], None],
        lost: Callable[[str], None],
        interval: float,
        limit: float,
        clock: Callable[[], float] = time.monotonic,
        witness: Witness | None = None,
    ):
        self._witness = witness
        self._beat = beat
        self._lost = lost
        self._interval = interval
        self._limit = limit
        self._clock = clock
        self._changed = threading.Condition()
        self._state: Any = None
        self._told: Any = None
        self._heard = clock()  # when the last beat that arrived was sent, or the witness was asked
        self._reached = self._heard  # when the last beat that arrived was sent
        self._detail = ""
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, state: Any) -> None:
        self._state = state
        self._heard = self._reached = self._clock()
        self._thread = threads.keep("tfapp-heartbeat", self._run)
        if self._limit:
            threads.start_surely("tfapp-fence", self._fence)

    def tell(self, state: Any) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        """Ends the heartbeats. Waits at most `timeout` seconds for one that is being sent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._due, timeout=self._interval)
                if self._closed:
                    return
                self._told = state = self._state
            sent = self._clock()
            try:
                self._beat(state)
            except RefusedError as error:
                self._end(f"the master no longer knows this container: {error}")
                return
            except Exception as error:  # the next beat may arrive
                self._detail = str(error)
                if not isinstance(error, UnreachableError):
                    threads.say("tfapp-heartbeat", error)
                elif self._witness is not None and not self._ask(self._witness):
                    return
            else:
                with self._changed:
                    self._heard = self._reached = sent
                try:
                    if self._witness is not None:
                        self._witness.check()
                except ReplacedError as error:
                    self._end(str(error))
                    return

    def _ask(self, witness: Witness) -> bool:
        """Asks the witness until it knows. False if this container has no place any more."""
        for _ in range(LOOKS):
            asked = self._clock()
            if self._closed or asked > self._reached + witness.limit:
                return not self._closed
            try:
                speaks = witness.speaks()
            except ReplacedError as error:
                self._end(str(error))
                return False
            with self._changed:
                if speaks:
                    self._heard = asked
                self._told = None  # the next beat is due at once
                if speaks is not None:
                    break
                self._changed.wait(LOOK_EVERY)
        return True

    def _due(self) -> bool:
        return self._closed or self._state != self._told

    def _fence(self) -> None:
        with self._changed:
            while not self._closed:
                left = self._heard + self._limit - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
        self._end(f"the master has not answered for {self._limit:g} s. {self._detail}".rstrip())

    def _end(self, message: str) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._lost(message)
