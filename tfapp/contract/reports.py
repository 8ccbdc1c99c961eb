"""What a runner tells the coordinator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.contract.exit import Exit


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Beat:
        return cls(**known(cls, data))


@dataclasses.dataclass(frozen=True)
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExitReport:
        values = known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)
