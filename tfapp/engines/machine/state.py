"""The files of a run, as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import Coded
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.refusals import read_kept
from tfapp.frozen import frozen
from tfapp.master.ending import Ending
from tfapp.processes import Process


@frozen
class RunConfig(Coded):
    """The configuration of a master. `environment`: the part of the submitting user's environment
    that containers inherit. `gpus`: the ids that this run may use; `gpus_needed`: the number that
    it must get; `gpus_most`: that it takes where so many are free. `accepted`: the status until the
    coordinator publishes one. `engine`: see Definition."""

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
    gpus_most: int = 0
    tags: tuple[str, ...] = ()
    docker: tuple[str, ...] = ()  # see Definition
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@frozen
class MasterState(Coded):
    """The address of a running master (host:port; "" before it serves). `host`: its machine."""

    process: Process
    host: str
    address: str


def read_config(run: RunFolder) -> RunConfig:
    """The configuration. FileNotFoundError if the run is incomplete; DamagedError."""
    config = read_kept(run.config, RunConfig.from_dict)
    if config is None:
        raise FileNotFoundError(run.config)
    return config


def read_state(run: RunFolder) -> MasterState | None:
    """The state; None if there is no master yet. DamagedError."""
    return read_kept(run.state, MasterState.from_dict)


def read_ending(run: RunFolder) -> Ending | None:
    """The ending; None until the run has ended properly. DamagedError."""
    return read_kept(run.ending, Ending.from_dict)
