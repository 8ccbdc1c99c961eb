"""A runner's calls to its master, which are repeated while the master is away."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tfapp.contract.encoding import encode
from tfapp.contract.messages import Answer, Beat, Cluster, ExitReport, Order
from tfapp.contract.names import (
    ANSWER_PREFIX,
    BEAT_PREFIX,
    CONTROL_PREFIX,
    EXIT_PREFIX,
    KEY_CLUSTER,
    KEY_GENERATION,
    KEY_KEPT,
    KEY_PROFILE,
    KEY_RELEASED,
    KEY_SESSION,
    KEY_STACKS,
    OFFER_PREFIX,
    ORDER_PREFIX,
    PROFILED_PREFIX,
    SAVED_PREFIX,
    STACKS_PREFIX,
)
from tfapp.contract.profiles import InstanceProfile
from tfapp.contract.saving import InstanceSave
from tfapp.contract.sessions import SessionOffer
from tfapp.contract.stacks import InstanceStacks
from tfapp.errors import UnreachableError
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Put, Watch
from tfapp.runner import events
from tfapp.runner.witness import Witness

_AT_ONCE = (KEY_PROFILE, KEY_SESSION, KEY_STACKS)

# Seconds without the master after which a runner gives up, if its fence is not quicker.
PATIENCE = 60.0

T = TypeVar("T")


class MasterLink:
    """The master, seen from the container of `instance`. Calls are repeated while it cannot be
    reached; UnreachableError after `patience` seconds. `attempt`: of the application, from 1, that
    this container belongs to."""

    def __init__(
        self,
        connection: Connection,
        instance: str,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        attempt: int = 1,
        witness: Witness | None = None,
    ):
        self._witness = witness
        self.container = connection.container
        self._attempt = attempt
        self._connection = connection
        self._instance = instance
        self._order_key = ORDER_PREFIX + instance
        self._patience = patience
        self._clock = clock

    def watch(self, into: queue.SimpleQueue[Any]) -> Watch:
        """Follows what the coordinator says to everybody, and to this instance."""
        return self._patiently(
            lambda: self._connection.watch(
                keys=(self._order_key,), prefixes=(CONTROL_PREFIX,), into=into
            )
        )

    def read(self, watch: Watch) -> list[Put]:
        """The keys that exist already, the generation first, without those that are for whoever
        hears them at once."""
        found = self._patiently(watch.read)
        ordered = sorted(found, key=lambda key: (key != KEY_GENERATION, key))
        return [Put(key, found[key]) for key in ordered if key not in _AT_ONCE]

    def understand(self, key: str, value: bytes) -> tuple[events.Event, ...]:
        """The event that a written key means, if it means one. UnreachableError if it is said by
        the master of another attempt: this container's own is lost."""
        data = json.loads(value)
        if key == KEY_KEPT and self._witness is not None:
            self._witness.counts = data is True
        if key == KEY_GENERATION:
            attempt = data.get("attempt", self._attempt)
            if attempt != self._attempt:
                raise UnreachableError(
                    f"the master is of attempt {attempt}, and this container of {self._attempt}: "
                    "another one has its place"
                )
            return (events.GenerationSeen(data["generation"]),)
        if key == KEY_CLUSTER:
            return (events.ClusterFormed(Cluster.from_dict(data)),)
        if key == KEY_RELEASED:
            return (events.ComponentsReleased(data["generation"], tuple(data["components"])),)
        if key == self._order_key:
            return (events.OrderGiven(Order.from_dict(data)),)
        return ()

    def answer(self, answer: Answer) -> None:
        """Gone when this container is."""
        key = ANSWER_PREFIX + self._instance
        self._patiently(lambda: self._connection.put_own(key, encode(answer)))

    def report(self, report: ExitReport) -> None:
        """Stays when this container is gone."""
        key = EXIT_PREFIX + self._instance
        self._patiently(lambda: self._connection.put(key, encode(report)))

    def beat(self, beat: Beat) -> None:
        """Tried once: the next beat is on its way."""
        self._connection.put_own(BEAT_PREFIX + self._instance, encode(beat))

    def tell_stacks(self, stacks: InstanceStacks) -> None:
        """Tried once, as nobody waits for long."""
        self._connection.put_own(STACKS_PREFIX + self._instance, encode(stacks))

    def tell_save(self, save: InstanceSave) -> None:
        """Repeated: all wait for it."""
        key = SAVED_PREFIX + self._instance
        self._patiently(lambda: self._connection.put_own(key, encode(save)))

    def tell_session(self, offer: SessionOffer) -> None:
        """Tried once, as nobody waits for long."""
        self._connection.put_own(OFFER_PREFIX + self._instance, encode(offer))

    def tell_profile(self, profile: InstanceProfile) -> None:
        """Repeated: it has taken a while to make."""
        key = PROFILED_PREFIX + self._instance
        self._patiently(lambda: self._connection.put_own(key, encode(profile)))

    def _patiently(self, call: Callable[[], T]) -> T:
        end = self._clock() + self._patience
        while True:
            try:
                return call()
            except UnreachableError:
                if self._clock() >= end:
                    raise
