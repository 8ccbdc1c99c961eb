"""What can happen to an application, each with its time in seconds of the coordinator's clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Union

from tfapp.contract.flex import FlexRequest
from tfapp.contract.reports import Answer, Beat, ExitReport


@dataclasses.dataclass(frozen=True)
class Started:
    """The coordinator has begun its work."""

    time: float


@dataclasses.dataclass(frozen=True)
class Requested:
    """The master took the request for an instance's container."""

    time: float
    instance: str
    container: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The master will never start a container for this instance."""

    time: float
    instance: str
    message: str


@dataclasses.dataclass(frozen=True)
class Answered:
    """A runner is ready for a generation."""

    time: float
    answer: Answer


@dataclasses.dataclass(frozen=True)
class Beaten:
    """A runner's heartbeat."""

    time: float
    instance: str
    beat: Beat


@dataclasses.dataclass(frozen=True)
class Exited:
    """A runner's report that its program is dead."""

    time: float
    report: ExitReport


@dataclasses.dataclass(frozen=True)
class ContainerEnded:
    """The master says that a container of an instance is gone."""

    time: float
    instance: str
    container: str


@dataclasses.dataclass(frozen=True)
class StopRequested:
    """Somebody asks for the end of the application."""

    time: float
    message: str


@dataclasses.dataclass(frozen=True)
class FlexRequested:
    """Somebody asks for another number of instances."""

    time: float
    request: FlexRequest


@dataclasses.dataclass(frozen=True)
class ContainerInfo:
    """What the master says of a container: its state (Skein's word), host and exit message.
    `log` is the end of its log, where that was asked for and its node has told."""

    state: str
    host: str = ""
    message: str = ""
    log: str = ""


@dataclasses.dataclass(frozen=True)
class Listed:
    """The answer to `ListContainers`: all containers by id, finished ones too."""

    time: float
    containers: Mapping[str, ContainerInfo]


@dataclasses.dataclass(frozen=True)
class Tick:
    """Everything that was queued has been handled, and it is `time` now. Only a tick lets a
    deadline pass: a coordinator that was slow, or paused, first hears what had been said."""

    time: float


Event = Union[
    Started,
    Requested,
    Refused,
    Answered,
    Beaten,
    Exited,
    ContainerEnded,
    StopRequested,
    FlexRequested,
    Listed,
    Tick,
]
