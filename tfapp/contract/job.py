"""The job: what the compiler decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.docker import Docker
from tfapp.contract.encoding import known
from tfapp.contract.failure import FailurePolicy
from tfapp.contract.limits import Limits


@dataclasses.dataclass(frozen=True)
class ExportTemplate:
    """One line of an export group that a component feeds, e.g. worker/host_port =
    "${worker_HOST}:${site.global.worker.port}"."""

    group: str
    name: str
    value: str


@dataclasses.dataclass(frozen=True)
class ComponentJob:
    """One component, ready to run. Times are in seconds, memory in MiB."""

    name: str
    role: str
    instances: int
    min_instances: int
    max_instances: int | None
    memory: int
    vcores: int
    gpus: int
    script: str  # path inside PACKAGE_DIR
    script_timeout: float  # limit for the script's start(), stop() and status() calls
    exports: tuple[ExportTemplate, ...]
    # Effective `site.*` keys of the component, full names, compile-time placeholders replaced;
    # run-time placeholders (tfapp.placeholders) still in them. Values are text, as in the file.
    site: Mapping[str, str]
    requires: tuple[str, ...] = ()  # components that must be started before (commandOrders)
    category: str = "MASTER"
    docker: Docker | None = None  # None: programs run as processes of the container
    # More failures than this within the window end the application; 0 or less: any number.
    failure_threshold: int = 0
    failure_window: float = 0.0  # seconds of real time; 0: the application's whole life
    progress_timeout: float = 0.0  # a program that shows none for so long hangs; 0: it may

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ComponentJob:
        values = known(cls, data)
        if data.get("docker") is not None:
            values["docker"] = Docker.from_dict(data["docker"])
        values["exports"] = tuple(ExportTemplate(**export) for export in data["exports"])
        values["requires"] = tuple(data.get("requires", ()))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Job:
    """The whole application for the coordinator and every runner. No secrets in it."""

    name: str  # of the application, as in `tfapp create NAME`
    application: str  # metainfo's application.name
    version: str
    user: str
    # Interpreter of the user's program unless site.global.python.executable; PYTHON, or a path.
    python: str
    components: tuple[ComponentJob, ...]
    success: tuple[str, ...]  # components all of whose instances must exit 0
    limits: Limits = Limits()
    failure: FailurePolicy = FailurePolicy()
    format: int = 1

    def component(self, name: str) -> ComponentJob:
        """KeyError when there is none of this name."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        values = known(cls, data)
        values["components"] = tuple(ComponentJob.from_dict(c) for c in data["components"])
        values["success"] = tuple(data["success"])
        values["limits"] = Limits(**known(Limits, data["limits"]))
        values["failure"] = FailurePolicy.from_dict(data.get("failure", {}))
        return cls(**values)
