"""The files of one run, as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.folders import RunFolder
from tfapp.engines.refusals import read_kept
from tfapp.frozen import frozen
from tfapp.master.ending import Ending
from tfapp.processes import Process


@frozen
class RunConfig:
    """The configuration of a master. `environment` is the part of the submitting user's environment
    that containers inherit; `gpus` are the ids that this run may take, `gpus_needed` the number
    that it must get. `accepted` is the status until the coordinator publishes one. `engine`: see
    Definition."""

    name: str
    application: str  # application_<milliseconds>_<run>
    run: int
    bind: str
    user: str
    environment: Mapping[str, str]
    gpu_locks: str  # folder
    gpus: tuple[str, ...]
    gpus_needed: int
    accepted: ApplicationStatus
    tags: tuple[str, ...] = ()
    docker: tuple[str, ...] = ()  # see Definition
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        values = known(cls, data)
        values["gpus"] = tuple(data["gpus"])
        values["tags"] = tuple(data["tags"])
        values["docker"] = tuple(data.get("docker", ()))
        values["accepted"] = ApplicationStatus.from_dict(data["accepted"])
        return cls(**values)


@frozen
class MasterState:
    """A master that serves at `address` (host:port; "" before it does). `host`: the machine it
    runs on."""

    process: Process
    host: str
    address: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MasterState:
        return cls(Process(**known(Process, data["process"])), data["host"], data["address"])


def read_config(run: RunFolder) -> RunConfig:
    """FileNotFoundError when the run is only half-made, DamagedError."""
    config = read_kept(run.config, RunConfig.from_dict)
    if config is None:
        raise FileNotFoundError(run.config)
    return config


def read_state(run: RunFolder) -> MasterState | None:
    """None until there is a master. DamagedError."""
    return read_kept(run.state, MasterState.from_dict)


def read_ending(run: RunFolder) -> Ending | None:
    """None until the run has ended in order. DamagedError."""
    return read_kept(run.ending, Ending.from_dict)
