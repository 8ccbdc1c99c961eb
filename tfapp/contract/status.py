"""What the coordinator publishes of an application and a client reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.contract.exit import Exit
from tfapp.contract.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class InstanceStatus:
    """What is known of one instance."""

    instance: str
    component: str
    role: str
    state: str
    container: str = ""
    host: str = ""
    exports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    exit: Exit | None = None
    docker: str = ""  # id of the Docker container that the program runs, or ran, in
    preparing: str = ""  # what it waits for before it is there, as its runner says (`Beat`)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InstanceStatus:
        values = known(cls, data)
        if data.get("exit") is not None:
            values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Moment:
    """One line of an application's history. `time`: seconds since 1970."""

    time: float
    text: str


@dataclasses.dataclass(frozen=True)
class ApplicationStatus:
    """The state of an application as its coordinator publishes it. Times: seconds since 1970.
    Numbers are None where it has ended without its coordinator's word, and nobody knows them."""

    name: str
    state: str
    generation: int | None
    started: float
    updated: float
    instances: tuple[InstanceStatus, ...]
    verdict: Verdict | None = None
    restarts: int | None = 0  # after failures of programs
    losses: int | None = 0  # restarts after losses by the infrastructure
    timeline: tuple[Moment, ...] = ()  # the newest last
    stop_grace: float = 30.0  # seconds that programs get to end when it is stopped

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApplicationStatus:
        values = known(cls, data)
        values["timeline"] = tuple(Moment(**known(Moment, m)) for m in data.get("timeline", ()))
        values["instances"] = tuple(InstanceStatus.from_dict(i) for i in data["instances"])
        if data.get("verdict") is not None:
            values["verdict"] = Verdict.from_dict(data["verdict"])
        return cls(**values)
