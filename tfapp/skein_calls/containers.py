"""Containers as an application's master knows them."""

from __future__ import annotations

import dataclasses

LIVE_STATES = ("WAITING", "REQUESTED", "RUNNING")
FINISHED_STATES = ("SUCCEEDED", "FAILED", "KILLED")


@dataclasses.dataclass(frozen=True)
class Container:
    """A container as the master knows it. `state` is WAITING, REQUESTED, RUNNING, SUCCEEDED,
    FAILED or KILLED; `message` says how a finished one ended. `yarn_id` is YARN's own id of it,
    `node` the address of its node's web pages (host:port)."""

    id: str  # "<service>_<number>"
    service: str
    state: str
    host: str
    message: str
    yarn_id: str = ""
    node: str = ""
