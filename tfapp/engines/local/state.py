"""What one run's files say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.status import ApplicationStatus
from tfapp.engines.disk import read_json
from tfapp.engines.local.layout import RunFolder
from tfapp.engines.local.process_tree import Process


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What a master is told. `environment` is what containers inherit from the submitting user;
    `gpus` are the ids this run may take, `gpus_needed` how many it must get. `accepted` is the
    status until the coordinator publishes one."""

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        values = dict(data)
        values["gpus"] = tuple(data["gpus"])
        values["tags"] = tuple(data["tags"])
        values["docker"] = tuple(data.get("docker", ()))
        values["accepted"] = ApplicationStatus.from_dict(data["accepted"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class MasterState:
    """A master that serves at `address` (host:port; "" before it does). `host`: the machine it
    runs on."""

    process: Process
    host: str
    address: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MasterState:
        return cls(Process(**data["process"]), data["host"], data["address"])


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a run ended: Skein's final status and diagnostics, and the verdict made of them."""

    final_status: str
    diagnostics: str
    status: ApplicationStatus

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ending:
        status = ApplicationStatus.from_dict(data["status"])
        return cls(data["final_status"], data["diagnostics"], status)


def read_config(run: RunFolder) -> RunConfig:
    """FileNotFoundError when the run is only half-made."""
    data = read_json(run.config)
    if data is None:
        raise FileNotFoundError(run.config)
    return RunConfig.from_dict(data)


def read_state(run: RunFolder) -> MasterState | None:
    """None until there is a master."""
    data = read_json(run.state)
    return None if data is None else MasterState.from_dict(data)


def read_ending(run: RunFolder) -> Ending | None:
    """None until the run has ended in order."""
    data = read_json(run.ending)
    return None if data is None else Ending.from_dict(data)
