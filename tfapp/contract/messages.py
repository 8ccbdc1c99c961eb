"""Messages between the coordinator, the runners and clients, apart from the status."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.contract.exit import Exit
from tfapp.contract.metrics import Measure
from tfapp.frozen import frozen

# ---- What the coordinator tells the runners ---------------------------------------------------


@frozen
class Member:
    """One instance of a formed cluster."""

    instance: str
    component: str
    index: int
    role: str
    host: str
    exports: Mapping[str, Mapping[str, str]]
    container: str = ""  # a runner in another one is not this member


@frozen
class Cluster:
    """The cluster spec of one generation: all members, in job order then by index.
    Components in `held` start only when KEY_RELEASED names them (commandOrders)."""

    generation: int
    members: tuple[Member, ...]
    held: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cluster:
        return cls(
            generation=data["generation"],
            members=tuple(Member(**known(Member, member)) for member in data["members"]),
            held=tuple(data.get("held", ())),
        )


@frozen
class Order:
    """The coordinator's word to one runner. `action`: "stop" (end the program: SIGTERM, `grace`
    seconds, SIGKILL; then report), "exit" (the report was taken: the runner may go), "restart"
    (the report was taken: start the program again, as attempt number `attempt`, with the same
    ports and cluster). A runner that has reported waits for one of these, or a new generation."""

    generation: int
    action: str
    grace: float = 0.0
    attempt: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Order:
        return cls(**known(cls, data))


# ---- What a runner tells the coordinator ------------------------------------------------------


@frozen
class Answer:
    """A runner's word that no program of an older generation lives here, with its exports."""

    generation: int
    instance: str
    host: str  # advertised
    container: str  # SKEIN_CONTAINER_ID
    exports: Mapping[str, Mapping[str, str]]  # group -> name -> value
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # site key -> held port
    pid: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        return cls(**known(cls, data))


@frozen
class Beat:
    """A runner's heartbeat. `state` is "waiting", "running" or "stopping"; the first beat in a
    new state is sent at once."""

    generation: int
    sequence: int
    state: str
    docker: str = ""  # id of the Docker container that the program runs in
    container: str = ""  # SKEIN_CONTAINER_ID
    host: str = ""  # advertised
    preparing: str = ""  # what its answer waits for: "pulling image mine:1: 1 of 2 layers, ..."
    # What its program has reported last; `metrics.cut` bounds it.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Beat:
        return cls(**known(cls, data))


@frozen
class ExitReport:
    """A runner's report that its program is dead (the whole process tree)."""

    generation: int
    instance: str
    container: str
    host: str
    exit: Exit
    stopped: bool  # it ended because it was ordered to
    last_lines: str  # redacted, at most MAX_LAST_LINES
    seconds: float  # how long the program ran
    attempt: int = 0  # how often it was restarted before, in this generation and container
    # Whether a new checkpoint or its TFAPP_PROGRESS_FILE shows that it got on. False only where
    # that is certain.
    progressed: bool = True
    # As in `Beat`, up to the program's end.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExitReport:
        values = known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


# ---- A client's request for another number of instances, and the coordinator's reply ----------


@frozen
class FlexRequest:
    """`count` is "3" for so many instances, "+1" or "-1" for so many more or fewer."""

    id: str
    component: str
    count: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexRequest:
        return cls(**known(cls, data))


@frozen
class FlexReply:
    """Whether the coordinator does what a request asked for, in one sentence."""

    accepted: bool
    text: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexReply:
        return cls(**known(cls, data))
