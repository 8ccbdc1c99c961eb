"""Publishes the application's status and progress, not more often than anybody could read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from tfapp.contract.encoding import encode
from tfapp.contract.keys import KEY_STATUS
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator.state import State
from tfapp.coordinator.status import progress, status
from tfapp.skein_calls.connection import Connection

# Seconds between two publications, unless the application's own state changes.
INTERVAL = 0.2
# The same where nothing is new but how far the preparations are: all that prepare say so in every
# heartbeat.
PREPARING_INTERVAL = 5.0


class Publisher:
    """`clock`: the loop's, monotonic. `calendar`: seconds since 1970."""

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        calendar: Callable[[], float],
    ):
        self._connection = connection
        self._clock = clock
        self._calendar = calendar
        self._since = calendar()
        self._last: ApplicationStatus | None = None
        self._phase = ""
        self._progress = -1.0
        self._published = -math.inf
        self._due = math.inf

    def due(self) -> float:
        """When something waits to be published; infinity when nothing does."""
        return self._due

    def publish(self, state: State) -> None:
        """At most one call for the status, and one for progress when it changed."""
        self._due = math.inf
        if state.phase == self._phase and self._too_early(INTERVAL):
            return
        now = status(state, self._since, 0.0)
        if now == self._last:
            return
        if _settled(now) == _settled(self._last) and self._too_early(PREPARING_INTERVAL):
            return
        self._last, self._phase, self._published = now, state.phase, self._clock()
        self._connection.put(KEY_STATUS, encode(self.status(state)))
        done = progress(state)
        if done != self._progress:
            self._progress = done
            self._connection.set_progress(done)

    def status(self, state: State) -> ApplicationStatus:
        """The status as of now."""
        return dataclasses.replace(status(state, self._since, 0.0), updated=self._calendar())

    def _too_early(self, interval: float) -> bool:
        """Whether the last publication is less than `interval` seconds ago; it is due then."""
        due = self._published + interval
        if self._clock() >= due:
            return False
        self._due = due
        return True


def _settled(status: ApplicationStatus | None) -> ApplicationStatus | None:
    """`status` but for how far the preparations are."""
    if status is None:
        return None
    instances = (dataclasses.replace(i, preparing="") for i in status.instances)
    return dataclasses.replace(status, instances=tuple(instances))
