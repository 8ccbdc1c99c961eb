"""The failure policy: what follows from the end of an instance, what speaks against a recovery, and
how much of the budgets is used."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping

from tfapp.contract.exit import (
    INFRASTRUCTURE_REASONS,
    LOSS_REASONS,
    REQUEUED,
    SHELL_SIGNAL,
    Exit,
)
from tfapp.contract.job import (
    FAIL_APPLICATION,
    IGNORE,
    RESTART_CLUSTER,
    RESTART_INSTANCE,
    FailureRule,
)
from tfapp.contract.metrics import Measure
from tfapp.contract.status import FAILURE, LastFailure
from tfapp.coordinator.policy.state import Charges, Failure, Instance, State
from tfapp.coordinator.policy.verdicts import duration, times
from tfapp.frozen import replace

# These are not in the cluster spec, so no other program fails with them.
_ACTION_OF_ROLE = {
    "tensorboard": IGNORE,
    "evaluator": RESTART_INSTANCE,
    "dispatcher": RESTART_INSTANCE,
    "dataworker": RESTART_INSTANCE,
}
REPLACEABLE_ROLES = ("tensorboard", "evaluator")  # no other program knows their address
# Others learn of one that comes. Of a data worker that has gone for good they do not: TensorFlow's
# trainers wait for it at its old address without an end.
ADDED_ALONE_ROLES = (*REPLACEABLE_ROLES, "dataworker")

# Signals that come from outside. Other signals are caused by the program itself.
_SIGNALS_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# The first restart comes at once, the next ones within this window after 1 s, 2 s, 4 s ...
BACK_OFF_WINDOW = 600.0  # seconds
MAX_BACK_OFF = 30.0  # seconds

# The parts that differ between two occurrences of one message: addresses, times, numbers.
_VARIABLE = re.compile(r"0[xX][0-9a-fA-F]+|\b(?=\w*\d)[0-9a-fA-F]{8,}\b|\d+")


def action_of(state: State, end: Instance) -> str:
    """The policy's action for the end of an instance."""
    assert end.exit is not None
    for rule in state.job.failure.rules:
        if _matches(rule, end.component, end.exit):
            return rule.action
    # A script that took longer than its timeout would do so again.
    default = FAIL_APPLICATION if end.exit.reason == "timeout" else RESTART_CLUSTER
    if state.job.decides(end.component, end.id):
        return default
    return _ACTION_OF_ROLE.get(end.role, default)


def _matches(rule: FailureRule, component: str, exit: Exit) -> bool:
    if rule.components and component not in rule.components:
        return False
    if not (rule.exit_codes or rule.reasons):
        return True
    codes = {exit.code, SHELL_SIGNAL + exit.signal if exit.signal else None}
    return exit.reason in rule.reasons or not codes.isdisjoint(rule.exit_codes)


# ---- what ends the application ----------------------------------------------------------------
def objection(state: State, failure: Failure, cause: Instance, time: float) -> str | None:
    """The reason why `failure` ends the application: a sentence, or "" where the end of the cause
    says all. None if the application survives it."""
    return next(_objections(state, failure, cause, time), None)


def _objections(state: State, failure: Failure, cause: Instance, time: float) -> Iterator[str]:
    policy, exit, charges = state.job.failure, cause.exit, state.charges
    assert exit is not None
    if action_of(state, cause) == FAIL_APPLICATION:
        yield ""
    # The master will never give it a container; or its node lacks something from the start.
    hopeless = not cause.container or failure.generation == 1
    if exit.reason == "start" and cause.report is None and hopeless:
        yield ""
    if exit.reason == REQUEUED:
        return
    if exit.reason in INFRASTRUCTURE_REASONS:
        yield from _spent("maxInfrastructureRestarts", policy.max_losses, charges.losses)
        return
    if policy.max_restarts > 0 and _is_broken(state, cause):
        subject = f"A program that fails within its first {duration(policy.startup)}"
        if exit.reason == "start":
            subject = "An instance that cannot start its program"
        yield f"{subject} is taken for broken and is not restarted (failurePolicy.startupSeconds)."
    if policy.max_restarts > 0 and _repeats(state, failure, cause):
        step = state.repeatable.step
        further = "a step or another metric" if step is None else f"a step beyond {step}"
        yield (
            f"It failed like generation {failure.generation - 1} did, with the same last line. In "
            "between nothing new was seen in a checkpoint folder or TFAPP_PROGRESS_FILE, and no "
            f"instance reported {further}: the program is taken for broken and is not restarted "
            "(failurePolicy.endOnRepeatedFailure)."
        )
    yield from _spent("maxRestarts", policy.max_restarts, charges.restarts)
    job = state.job.component(cause.component)
    count = len(_failures(state, cause.component, time)) + 1
    if 0 < job.failure_threshold < count:
        within = f" within {duration(job.failure_window)}" if job.failure_window else ""
        yield (
            f"It was not restarted: {cause.component} has failed {times(count)}{within}, more than "
            f"{job.failure_threshold} (yarn.container.failure.threshold)."
        )


def _spent(name: str, budget: int, used: int) -> Iterator[str]:
    if used >= budget:
        done = f"that was done {times(used)}"
        yield f"It was not restarted again: {done} (failurePolicy.{name})." if budget else ""


def _is_broken(state: State, cause: Instance) -> bool:
    """Whether the program failed by itself within the startup time of generation 1."""
    report, exit = cause.report, cause.exit
    if report is None or exit is None or report.generation > 1 or report.attempt:
        return False
    if exit.reason in (*LOSS_REASONS, "hang"):
        return False
    if exit.reason == "signal" and exit.signal in _SIGNALS_OF_OTHERS:
        return False
    return report.seconds < state.job.failure.startup


def _repeats(state: State, failure: Failure, cause: Instance) -> bool:
    """Whether the program failed as in the previous generation, without progress in between."""
    last = state.repeatable
    return (
        state.job.failure.repeats_end
        and last.generation == failure.generation - 1
        and last.signature is not None
        and last.signature == _signature(cause)
        and not progressed(state, failure)
    )


def progressed(state: State, failure: Failure) -> bool:
    """Whether any instance has got on in the generation that failed: it has saved something, or
    ended well, or the highest step is higher. Metrics count where there are no steps."""
    reports = (i.report for i in (*failure.ends, *state.instances.values()))
    reports_it = any(r and r.generation == failure.generation and r.progressed for r in reports)
    if failure.progressed or reports_it:
        return True
    last = state.repeatable
    step, metrics = _reported(state, failure)
    if step is not None:
        return last.step is None or step > last.step
    return metrics != last.metrics


def repeatable(state: State, failure: Failure, cause: Instance) -> LastFailure:
    """What the next failure is compared with."""
    step, metrics = _reported(state, failure)
    return LastFailure(failure.generation, _signature(cause), step, metrics)


def _reported(
    state: State, failure: Failure
) -> tuple[int | None, tuple[Mapping[str, Measure], ...]]:
    """The highest step that an instance has reported, or epoch, and the metrics of all."""
    now = {**state.instances, **{end.id: end for end in failure.ends}}.values()
    steps = [i.epoch if i.step is None else i.step for i in now]
    return max((step for step in steps if step is not None), default=None), tuple(
        instance.metrics for instance in now
    )


def _signature(cause: Instance) -> tuple[int, str] | None:
    """The exit code and the last line without numbers: equal for two failures of a broken program.
    None if a signal ended the program, or it wrote nothing."""
    exit, report = cause.exit, cause.report
    if exit is None or report is None or exit.reason != "exit" or not exit.code:
        return None
    if exit.code > SHELL_SIGNAL:
        return None  # a shell's exit code for a signal
    lines = [line.strip() for line in report.last_lines.splitlines() if line.strip()]
    return (exit.code, _VARIABLE.sub("#", lines[-1])) if lines else None


# ---- budgets ----------------------------------------------------------------------------------
def charge(state: State, cause: Instance, time: float) -> Charges:
    """The budgets' use after a failure at `time` was charged to `cause`. Where a queue has taken
    containers back, nothing is charged."""
    assert cause.exit is not None
    if cause.exit.reason == REQUEUED:
        return state.charges
    charges = replace(state.charges, recent=(*_recently(state, time), time))
    if cause.exit.reason in INFRASTRUCTURE_REASONS:
        return replace(charges, losses=charges.losses + 1)
    components = dict(charges.components)
    components[cause.component] = (*_failures(state, cause.component, time), time)
    return replace(charges, restarts=charges.restarts + 1, components=components)


def objection_to_loss(state: State) -> str | None:
    """What speaks against going on after the loss of the master; "" if the policy's budget is 0.
    None if the application survives it."""
    name, budget = "maxInfrastructureRestarts", state.job.failure.max_losses
    return next(_spent(name, budget, state.charges.losses), None)


def charge_master(state: State, time: float, why: str) -> State:
    """The state in which the loss of the master, seen at `time`, is charged and told. `why`: a
    clause, "" if there is none."""
    charges = state.charges
    recent = (*_recently(state, time), time)
    charges = replace(charges, losses=charges.losses + 1, recent=recent)
    state = replace(state, charges=charges)
    text = f"the application's master was lost and is back{why and f': {why}'}"
    return state.noted(time, text, FAILURE)


def back_off(state: State, time: float) -> float:
    """Seconds that the next restart has to wait."""
    count = len(_recently(state, time))
    return min(2.0 ** (count - 1), MAX_BACK_OFF) if count else 0.0


def _failures(state: State, component: str, time: float) -> tuple[float, ...]:
    """The times of the component's failures within its window."""
    window = state.job.component(component).failure_window
    charged = state.charges.components.get(component, ())
    return tuple(at for at in charged if not window or at > time - window)


def _recently(state: State, time: float) -> tuple[float, ...]:
    return tuple(at for at in state.charges.recent if at > time - BACK_OFF_WINDOW)
