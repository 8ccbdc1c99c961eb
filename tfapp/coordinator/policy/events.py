"""The events of an application, each with its time in seconds of the coordinator's clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Union

from tfapp.contract.messages import Answer, Beat, ExitReport, FlexRequest
from tfapp.contract.saving import InstanceSave
from tfapp.contract.sessions import SessionRequest
from tfapp.contract.stacks import InstanceStacks
from tfapp.contract.status import ApplicationStatus, FeedStatus
from tfapp.frozen import frozen


@frozen
class Started:
    """The coordinator has begun its work. `earlier`: the last status of a run that goes on after a
    suspension or, if `lost`, after the loss of its master. `before`: seconds from the application's
    start to this moment. `seed`: for what is left to chance, another one for each application.
    `why`: see record.Attempt.why_lost."""

    time: float
    earlier: ApplicationStatus | None = None
    before: float = 0.0
    seed: int = 0
    lost: bool = False
    why: str = ""


@frozen
class TakenOver:
    """The coordinator was lost, and this one goes on with its state. `beats`: the newest heartbeat
    of each instance."""

    time: float
    beats: Mapping[str, Beat]


@frozen
class Requested:
    """The master took the request for an instance's container."""

    time: float
    instance: str
    container: str


@frozen
class Refused:
    """The master will never start a container for this instance."""

    time: float
    instance: str
    message: str


@frozen
class Waits:
    """The master's reason why a container has not started, such as "waiting for 2 GPUs"; "" when
    there is none any more. `kind`: QUEUE, QUOTA or NODES of `contract.names` where a scheduler
    holds it back, GRANTED where it has its place; "" for any other reason."""

    time: float
    instance: str
    container: str
    text: str
    kind: str = ""


@frozen
class Answered:
    """A runner is ready for a generation."""

    time: float
    answer: Answer


@frozen
class Beaten:
    time: float
    instance: str
    beat: Beat


@frozen
class StacksTold:
    """The stacks of an instance's program, for the coordinator's request or a client's."""

    time: float
    stacks: InstanceStacks


@frozen
class SaveTold:
    """What an instance has done at the request to save."""

    time: float
    save: InstanceSave


@frozen
class Exited:
    """A runner's report that its program has ended."""

    time: float
    report: ExitReport


@frozen
class ContainerEnded:
    """The master says that an instance's container is gone."""

    time: float
    instance: str
    container: str


@frozen
class StopRequested:
    time: float
    message: str


@frozen
class MasterLeaves:
    """The master is about to leave. Another one goes on, or nobody. `saves`: once programs have
    saved, as the application is suspended."""

    time: float
    saves: bool = False


@frozen
class FlexRequested:
    time: float
    request: FlexRequest


@frozen
class SessionRequested:
    """A client asks for a session: `tfapp exec`."""

    time: float
    request: SessionRequest


@frozen
class Fed:
    """The counters of the feed, from the driver that feeds the programs."""

    time: float
    feed: FeedStatus


@frozen
class MasterBack:
    """The master was lost, and another one goes on with the same containers. `why`: see Started."""

    time: float
    why: str = ""


@frozen
class ContainerInfo:
    """The master's report of a container: its state (Skein's word), host, exit message, and the
    reason for its end ("" for none). `log`: the last lines of its log, if they have been read from
    its node. `log_by`: the deadline for reading them, while that goes on."""

    state: str
    host: str = ""
    message: str = ""
    log: str = ""
    reason: str = ""
    log_by: float = -math.inf


@frozen
class Listed:
    """The answer to `ListContainers`: all containers by id, including finished ones. A second
    answer follows when the requested logs have been read."""

    time: float
    containers: Mapping[str, ContainerInfo]


@frozen
class Tick:
    """All queued events have been handled, and the time is `time`. Deadlines pass at ticks only, so
    a coordinator that was slow or paused first handles the events that arrived meanwhile."""

    time: float


Event = Union[
    Started,
    TakenOver,
    Requested,
    Refused,
    Waits,
    Answered,
    Beaten,
    StacksTold,
    SaveTold,
    Exited,
    ContainerEnded,
    StopRequested,
    MasterLeaves,
    FlexRequested,
    SessionRequested,
    Fed,
    MasterBack,
    Listed,
    Tick,
]
