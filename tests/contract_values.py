"""Values of the contract, with the defaults that the schemas declare."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfapp.compiler.job import read_limits
from tfapp.contract.job import (
    ComponentJob,
    Docker,
    FailurePolicy,
    Job,
    Limits,
    Mount,
    Resources,
    Settings,
)
from tfapp.package.amounts import seconds
from tfapp.package.build_metainfo import build_failure_policy
from tfapp.schema import defaults

SETTINGS = Settings({key: str(value) for key, value in defaults("appConfig").items()})
LIMITS = read_limits(SETTINGS, Limits.settle)
FAILURE_POLICY = build_failure_policy({})


def make_limits(**changes: float) -> Limits:
    return dataclasses.replace(LIMITS, **changes)


def make_failure_policy(**changes) -> FailurePolicy:
    return dataclasses.replace(FAILURE_POLICY, **changes)


def make_component(**changes: Any) -> ComponentJob:
    """Two instances of the component "worker"."""
    fields: dict[str, Any] = {
        "name": "worker",
        "role": "worker",
        "instances": 2,
        "min_instances": 0,
        "max_instances": None,
        "container": Resources(1024, 1),
        "script": "scripts/tensorflow.py",
        "script_timeout": 60.0,
        "exports": (),
        "python": "python3",
        "site": {},
    }
    return ComponentJob(**{**fields, **changes})


def make_job(*components: ComponentJob, **changes: Any) -> Job:
    job = Job("digits", "tf", "1.0", "ada", components, ("worker",), LIMITS, FAILURE_POLICY)
    return dataclasses.replace(job, **changes)


def make_docker(image: str, mounts: tuple[Mount, ...] = (), **changes) -> Docker:
    pull, timeout = SETTINGS.text("docker.pull"), SETTINGS.text("docker.pull.timeout")
    return dataclasses.replace(Docker(image, pull, seconds(timeout), mounts), **changes)
