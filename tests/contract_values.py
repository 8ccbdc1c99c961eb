"""Values of the contract, with the defaults that the schemas declare."""

from __future__ import annotations

import dataclasses

from tfapp.compiler.limits import read_limits
from tfapp.contract.job import Docker, FailurePolicy, Limits, Mount, Settings
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


def make_docker(image: str, mounts: tuple[Mount, ...] = (), **changes) -> Docker:
    pull, timeout = SETTINGS.text("docker.pull"), SETTINGS.text("docker.pull.timeout")
    return dataclasses.replace(Docker(image, pull, seconds(timeout), mounts), **changes)
