"""What the coordinator tells the runners."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known


@dataclasses.dataclass(frozen=True)
class Member:
    """One instance of a formed cluster."""

    instance: str
    component: str
    index: int
    role: str
    host: str
    exports: Mapping[str, Mapping[str, str]]
    container: str = ""  # a runner in another one is not this member


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
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
