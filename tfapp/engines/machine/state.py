"""The files of a run, as values."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import Coded
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.refusals import read_kept
from tfapp.frozen import frozen
from tfapp.master.ending import Ending
from tfapp.processes import Process, is_alive, send


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
    attempts: int = 1  # masters, one after another: site.global.master.attempts
    master_timeout: float = 300.0  # seconds that a coordinator waits for the next one
    tags: tuple[str, ...] = ()
    docker: tuple[str, ...] = ()  # see Definition
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@frozen
class MasterState(Coded):
    """The address of a running master (host:port; "" before it serves). `host`: its machine.
    `parent`: the process that starts another master when this one is lost. `attempt`: the number of
    the master, from 1."""

    process: Process
    host: str
    address: str
    parent: Process | None = None
    attempt: int = 1

    @property
    def processes(self) -> tuple[Process, ...]:
        return (self.process,) if self.parent is None else (self.parent, self.process)

    @property
    def lives(self) -> bool:
        """Whether there is a master, or another one comes."""
        return any(map(is_alive, self.processes))

    def kill(self) -> None:
        """Kills the master and its parent at the same moment: they are a process group, with the
        next master, if it has just been started."""
        if self.parent is None:
            send(self.process, signal.SIGKILL)
        for process in filter(is_alive, self.processes if self.parent else ()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)


def read_config(run: RunFolder) -> RunConfig:
    """The configuration. FileNotFoundError if the run is incomplete; DamagedError."""
    config = read_kept(run.config, RunConfig.from_dict)
    if config is None:
        raise FileNotFoundError(run.config)
    return config


def read_state(run: RunFolder) -> MasterState | None:
    """The state; None if there is no master yet. DamagedError."""
    return read_kept(run.state, MasterState.from_dict)


def read_status(run: RunFolder) -> ApplicationStatus | None:
    """What the coordinator has published last; None if there is nothing yet. DamagedError."""
    return read_kept(run.status, ApplicationStatus.from_dict)


def read_ending(run: RunFolder) -> Ending | None:
    """The ending; None until the run has ended properly. DamagedError."""
    return read_kept(run.ending, Ending.from_dict)
