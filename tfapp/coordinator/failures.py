"""What is done about a failure: the rule that matches it, the budgets, the back-off."""

from __future__ import annotations

import dataclasses
import signal

from tfapp.contract.exit import Exit
from tfapp.contract.failure import (
    FAIL_APPLICATION,
    IGNORE,
    INFRASTRUCTURE_REASONS,
    LOSS_REASONS,
    RESTART_CLUSTER,
    RESTART_INSTANCE,
    FailureRule,
)
from tfapp.contract.states import RUNNING
from tfapp.coordinator.state import Instance, State
from tfapp.coordinator.verdicts import duration, times

# An evaluator and TensorBoard stand outside of the cluster: nobody waits for them.
_ACTION_OF_ROLE = {"tensorboard": IGNORE, "evaluator": RESTART_INSTANCE}
REPLACEABLE_ROLES = tuple(_ACTION_OF_ROLE)  # another address of theirs matters to nobody

# Signals by which others end a program. By any other a program ends itself.
_SIGNALS_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHELL_SIGNAL = 128

# The first restart comes at once, the others within this time after 1 s, 2 s, 4 s ...
BACK_OFF_WINDOW = 600.0  # seconds
MAX_BACK_OFF = 30.0  # seconds


def action_for(state: State, instance: Instance) -> str:
    """What the policy says to the way in which `instance` has ended."""
    assert instance.exit is not None
    for rule in state.job.failure.rules:
        if _matches(rule, instance.component, instance.exit):
            return rule.action
    # What was not started in all the time that it was given would not be the next time.
    default = FAIL_APPLICATION if instance.exit.reason == "timeout" else RESTART_CLUSTER
    if instance.component in state.job.success:
        return default
    return _ACTION_OF_ROLE.get(instance.role, default)


def _matches(rule: FailureRule, component: str, exit: Exit) -> bool:
    if rule.components and component not in rule.components:
        return False
    if not (rule.exit_codes or rule.reasons):
        return True
    codes = {exit.code, _SHELL_SIGNAL + exit.signal if exit.signal else None}
    return exit.reason in rule.reasons or not codes.isdisjoint(rule.exit_codes)


def alone(state: State, instance: Instance, action: str) -> bool:
    """Whether its program can start again where it was, while the others go on."""
    has_address = instance.answer is not None and not instance.lost
    return action == RESTART_INSTANCE and state.phase == RUNNING and has_address


def objection(state: State, instance: Instance, time: float) -> str | None:
    """Why this failure is not followed by a restart: a sentence, or "" when that goes without
    saying. None when nothing is against it."""
    policy, exit = state.job.failure, instance.exit
    assert exit is not None
    if exit.reason == "start" and instance.report is None:
        if not instance.container:
            return ""  # the master will never give it a container
        if state.generation == 1:
            return ""  # its node lacks what it needs: the application is set up wrong
    if exit.reason in INFRASTRUCTURE_REASONS:
        return _spent("maxInfrastructureRestarts", policy.max_losses, state.losses)
    if policy.max_restarts > 0 and _is_broken(state, instance):
        subject = f"A program that fails within its first {duration(policy.startup)}"
        if exit.reason == "start":
            subject = "What cannot start its program"
        return f"{subject} is taken for broken and is not restarted (failurePolicy.startupSeconds)."
    spent = _spent("maxRestarts", policy.max_restarts, state.restarts)
    return _over_threshold(state, instance, time) if spent is None else spent


def charge(state: State, instance: Instance, time: float) -> State:
    """The state after a restart for this failure was taken from its budget."""
    assert instance.exit is not None
    state = dataclasses.replace(state, restarted=(*_recently(state, time), time))
    if instance.exit.reason in INFRASTRUCTURE_REASONS:
        return dataclasses.replace(state, losses=state.losses + 1)
    charged = dict(state.charged)
    charged[instance.component] = (*_failures(state, instance.component, time), time)
    return dataclasses.replace(state, restarts=state.restarts + 1, charged=charged)


def refund(state: State) -> State:
    """The state without what was charged for the generation before this one: its cause is
    another."""
    at = next((at for at in state.restarted if at >= state.began), None)
    if at is None:  # this generation was asked for
        return state
    state = dataclasses.replace(state, restarted=_without(state.restarted, at))
    component = next((name for name, charged in state.charged.items() if at in charged), None)
    if component is None:
        return dataclasses.replace(state, losses=state.losses - 1)
    charged = {**state.charged, component: _without(state.charged[component], at)}
    return dataclasses.replace(state, restarts=state.restarts - 1, charged=charged)


def _without(times: tuple[float, ...], at: float) -> tuple[float, ...]:
    index = times.index(at)
    return (*times[:index], *times[index + 1 :])


def back_off(state: State, time: float) -> float:
    """Seconds that a restart which is yet to be charged has to wait."""
    count = len(_recently(state, time))
    return min(2.0 ** (count - 1), MAX_BACK_OFF) if count else 0.0


def _spent(name: str, budget: int, used: int) -> str | None:
    if used < budget:
        return None
    if not budget:
        return ""
    return f"It was not restarted again: that was done {times(used)} (failurePolicy.{name})."


def _over_threshold(state: State, instance: Instance, time: float) -> str | None:
    job = state.job.component(instance.component)
    count = len(_failures(state, instance.component, time)) + 1
    if job.failure_threshold <= 0 or count <= job.failure_threshold:
        return None
    within = f" within {duration(job.failure_window)}" if job.failure_window else ""
    return (
        f"It was not restarted: {instance.component} has failed {times(count)}{within}, more than "
        f"{job.failure_threshold} (yarn.container.failure.threshold)."
    )


def _failures(state: State, component: str, time: float) -> tuple[float, ...]:
    """When the component failed within its window."""
    window = state.job.component(component).failure_window
    charged = state.charged.get(component, ())
    return tuple(at for at in charged if not window or at > time - window)


def _recently(state: State, time: float) -> tuple[float, ...]:
    return tuple(at for at in state.restarted if at > time - BACK_OFF_WINDOW)


def _is_broken(state: State, instance: Instance) -> bool:
    """Whether the program failed too soon, and by itself."""
    report, exit = instance.report, instance.exit
    if report is None or exit is None or report.generation > 1 or report.attempt:
        return False
    if exit.reason in (*LOSS_REASONS, "hang"):
        return False
    if exit.reason == "signal" and exit.signal in _SIGNALS_OF_OTHERS:
        return False
    return report.seconds < state.job.failure.startup
