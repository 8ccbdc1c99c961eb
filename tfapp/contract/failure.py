"""Failures by their reason, and what is done about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known

# What is done about a failure.
RESTART_CLUSTER = "RestartCluster"  # all instances get the next generation
RESTART_INSTANCE = "RestartInstance"  # its program starts again at the same address
FAIL_APPLICATION = "FailApplication"
IGNORE = "Ignore"
ACTIONS = (RESTART_CLUSTER, RESTART_INSTANCE, FAIL_APPLICATION, IGNORE)

# What a program or its container can end by (`Exit.reason`), as far as a rule can ask for it.
PROGRAM_REASONS = ("exit", "signal", "memory", "hang", "script", "start", "timeout")
LOSS_REASONS = ("lost", "silent", "preempted", "node-lost")  # of the container
# Losses that have a budget of their own: no program can bring them about.
INFRASTRUCTURE_REASONS = ("silent", "preempted", "node-lost")
REASONS = (*PROGRAM_REASONS, *LOSS_REASONS)


@dataclasses.dataclass(frozen=True)
class FailureRule:
    """What is done about failures of `components` (none named: of all) that ended with one of
    `exit_codes` or for one of `reasons` (neither named: however they ended). 128 + n among the
    exit codes is a program killed by signal n too."""

    action: str
    components: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailureRule:
        values = known(cls, data)
        for name in ("components", "exit_codes", "reasons"):
            values[name] = tuple(data.get(name, ()))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class FailurePolicy:
    """What failures are survived. The first rule that matches a failure counts."""

    max_restarts: int = 3  # after failures of programs, in the application's life
    max_losses: int = 10  # restarts after a loss by the infrastructure, counted apart
    # Seconds of generation 1 in which a program that fails is broken and not restarted; 0: none.
    startup: float = 10.0
    rules: tuple[FailureRule, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailurePolicy:
        values = known(cls, data)
        values["rules"] = tuple(map(FailureRule.from_dict, data.get("rules", ())))
        return cls(**values)
