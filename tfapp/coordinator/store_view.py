"""Turns changes of the key-value store into events for the policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.contract.messages import Answer, Beat, ExitReport, FlexRequest
from tfapp.contract.names import (
    ALIVE_PREFIX,
    ANSWER_PREFIX,
    BEAT_PREFIX,
    EXIT_PREFIX,
    KEY_FEED,
    KEY_FLEX,
    KEY_STOP,
    WAITS_PREFIX,
)
from tfapp.contract.status import FeedStatus
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.events import Event
from tfapp.protocol.watch import Deleted, Put


class StoreView:
    """The reports in the key-value store, as they are known. After a broken stream the store is
    read again, and only values that are new become events."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def apply(self, change: Put | Deleted, time: float) -> Iterator[Event]:
        """The events of one change."""
        if isinstance(change, Deleted):
            yield from self._deleted(change.key, time)
        elif self._values.get(change.key) != change.value:
            self._values[change.key] = change.value
            yield from _written(change.key, change.value, time)

    def reconcile(self, values: Mapping[str, bytes], time: float) -> Iterator[Event]:
        """The events for the differences between the known values and `values`, the store's present
        content. Exit reports come before the ends of containers, because an end without a report is
        a loss."""
        for key in sorted(values, key=lambda key: not key.startswith(EXIT_PREFIX)):
            yield from self.apply(Put(key, values[key]), time)
        for key in tuple(self._values.keys() - values.keys()):
            yield from self.apply(Deleted(key), time)

    def _deleted(self, key: str, time: float) -> Iterator[Event]:
        value = self._values.pop(key, b"")
        if key.startswith(ALIVE_PREFIX):
            yield events.ContainerEnded(time, key[len(ALIVE_PREFIX) :], value.decode())


def _written(key: str, value: bytes, time: float) -> Iterator[Event]:
    if key == KEY_STOP:
        yield events.StopRequested(time, str(json.loads(value).get("message", "")))
        return
    if key == KEY_FLEX:
        yield events.FlexRequested(time, FlexRequest.from_dict(json.loads(value)))
        return
    if key == KEY_FEED:
        yield events.Fed(time, FeedStatus.from_dict(json.loads(value)))
        return
    for prefix, make in _READERS.items():
        if key.startswith(prefix):
            yield make(time, key[len(prefix) :], json.loads(value))


_READERS: Mapping[str, Callable[[float, str, Any], Event]] = {
    ANSWER_PREFIX: lambda time, _, data: events.Answered(time, Answer.from_dict(data)),
    BEAT_PREFIX: lambda time, name, data: events.Beaten(time, name, Beat.from_dict(data)),
    EXIT_PREFIX: lambda time, _, data: events.Exited(time, ExitReport.from_dict(data)),
    WAITS_PREFIX: lambda time, name, data: events.Waits(
        time, name, data["container"], data["text"]
    ),
}
