"""Collects failures, begins a recovery for those that the application survives, and judges each
once.

`collect` adds an instance that failed. `look`, at each tick, begins the recovery for the likeliest
cause, and judges the failure when that is due: it becomes the verdict, or is charged to its cause.
"""

from __future__ import annotations

import dataclasses
import math
import re
import signal

from tfapp.contract.exit import INFRASTRUCTURE_REASONS, LOSS_REASONS, Exit
from tfapp.contract.job import (
    FAIL_APPLICATION,
    IGNORE,
    RESTART_CLUSTER,
    RESTART_INSTANCE,
    FailureRule,
)
from tfapp.contract.messages import ExitReport, Order
from tfapp.contract.names import FORMING, RUNNING
from tfapp.contract.status import FAILURE, IGNORED, REPLACED, RESTARTED
from tfapp.coordinator.policy import actions, ending, forming, verdicts
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import (
    Charges,
    Failure,
    Instance,
    Intent,
    Recovery,
    Stage,
    State,
)
from tfapp.coordinator.policy.verdicts import duration, times

# Evaluators and TensorBoard are not in the cluster spec, so no other program waits for them.
_ACTION_OF_ROLE = {"tensorboard": IGNORE, "evaluator": RESTART_INSTANCE}
_REPLACEABLE_ROLES = tuple(_ACTION_OF_ROLE)  # no other program depends on their address

# Signals that come from outside. Other signals are caused by the program itself.
_SIGNALS_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHELL_SIGNAL = 128

# The first restart comes at once, the next ones within this window after 1 s, 2 s, 4 s ...
BACK_OFF_WINDOW = 600.0  # seconds
MAX_BACK_OFF = 30.0  # seconds

# The parts that differ between two occurrences of one message: addresses, times, numbers.
_VARIABLE = re.compile(r"0[xX][0-9a-fA-F]+|\b(?=\w*\d)[0-9a-fA-F]{8,}\b|\d+")


# ---- which failure is the cause ---------------------------------------------------------------
def rank(end: Instance) -> int:
    """How likely the end of an instance is the cause of the others: 0 is the likeliest. The order
    of arrival does not tell, because programs that lost a peer often fail before the loss of the
    peer is known."""
    assert end.exit is not None
    if end.exit.reason in INFRASTRUCTURE_REASONS or not end.container:
        return 0  # no program causes this: the machine failed, or there was no container
    outside = (*LOSS_REASONS, "signal", "memory", "hang")
    return 1 if end.exit.reason in outside or end.report is None else 2


def _cause(state: State, failure: Failure) -> int | None:
    """The index in `failure.ends` of the likeliest cause so far; None if all are ignored."""
    counted = [i for i, end in enumerate(failure.ends) if _action(state, end) != IGNORE]
    return min(counted, key=lambda i: (rank(failure.ends[i]), i), default=None)


# ---- collecting -------------------------------------------------------------------------------
def collect(state: State, instance: Instance, time: float) -> State:
    """Adds `instance`, which has just failed, to the open failure or opens one. If it does not
    belong to the open failure, it waits until that is judged."""
    failure = state.failure
    if failure is None:
        before = _is_old_loss(state, instance) and not _heard_since(state, instance)
        settled = time + state.job.limits.settle
        failure = Failure(state.generation - before, time, settled, (instance,))
    elif _belongs(state, failure, instance, time):
        failure = dataclasses.replace(failure, ends=(*failure.ends, instance), looked=False)
    return dataclasses.replace(state, failure=failure)


def collect_late(state: State, report: ExitReport) -> State:
    """Adds a late report to the open failure: of a program of the generation that failed, which
    ended before the next generation was announced."""
    failure = state.failure
    if failure is None or report.stopped or report.exit.code == 0 or not _forms(state):
        return state
    known = any(end.report == report for end in failure.ends)
    if report.generation != failure.generation or known:
        return state
    instance = state.instances[report.instance]
    end = dataclasses.replace(instance, stage=Stage.ENDED, exit=report.exit, report=report)
    failure = dataclasses.replace(failure, ends=(*failure.ends, end), looked=False)
    return dataclasses.replace(state, failure=failure)


def _belongs(state: State, failure: Failure, instance: Instance, time: float) -> bool:
    if failure.recovery is Recovery.NONE and not _forms(state):
        return True
    before = any(instance.id == end.id for end in failure.ends)
    if before and (instance.report is not None or failure.recovery is Recovery.CONTAINER):
        return False  # it failed again after its recovery began
    # The containers of a lost node do not all end at the same time.
    limits = state.job.limits
    together = time <= state.began + limits.settle + 2 * limits.heartbeat
    if _is_old_loss(state, instance) and (together or not _heard_since(state, instance)):
        return True
    cause = _cause(state, failure)
    likelier = cause is None or rank(instance) < rank(failure.ends[cause])
    return likelier and not _forms(state)


def _forms(state: State) -> bool:
    """Whether the generation after the one that failed is being formed."""
    return state.failure is not None and state.failure.generation < state.generation


def _is_old_loss(state: State, instance: Instance) -> bool:
    """Whether a container of the last generation is lost while the next one forms."""
    return state.phase == FORMING and instance.lost and instance.requested_in < state.generation


def _heard_since(state: State, instance: Instance) -> bool:
    return instance.heard is None or instance.heard >= state.began


def _waiting(state: State) -> Instance | None:
    """An instance that has failed and belongs to no failure yet."""
    return next(
        (
            i
            for i in state.instances.values()
            if i.ended and not i.succeeded and i.intent is Intent.RUN
        ),
        None,
    )


# ---- recovery and judgement -------------------------------------------------------------------
def look(state: State, time: float) -> Step:
    """Begins the recovery of the open failure, and judges it if that is due; then does the same
    with the next failure."""
    done: tuple[Action, ...] = ()
    while not state.decided:
        if state.failure is None:
            instance = _waiting(state)
            if instance is None:
                break
            state = collect(state, instance, time)
        if _log_by(state) > time:
            break
        state, more = _ignore(state, time)
        done += more
        failure = state.failure
        if failure is None:
            continue
        objection = _objection_to_cause(state, time)
        if objection is None:
            state, more = _recover(state, time)
            done += more
        state = _looked(state)
        if due(state, time) > time:
            break
        state = close(state) if objection is None else _fail(state, time, objection)
    return state, done


def due(state: State, time: float) -> float:
    """The time at which the open failure is looked at or judged next; infinity if none is open."""
    failure = state.failure
    if failure is None:
        return math.inf
    if not failure.looked or _log_by(state) > time:
        return max(_log_by(state), time)
    ready = _forms(state) and forming.all_answered(state)
    number = _cause(state, failure)
    assert number is not None, "what is ignored is not open"
    if _objection_to_cause(state, time) is not None:
        settled = ready or rank(failure.ends[number]) == 0
        return time if settled else max(failure.settled, time)
    if failure.recovery is Recovery.PROGRAM or state.phase == RUNNING:
        return max(failure.settled, time)
    if ready or (failure.recovery is Recovery.CONTAINER and forming.all_answered(state)):
        return time
    return math.inf if _waiting(state) is None else max(failure.settled, time)


def hasten(state: State, time: float) -> tuple[State, bool]:
    """Judges the open failure now, because the application is asked to stop. Returns the state, and
    whether the failure is survived; if not, it becomes the verdict at the next tick."""
    failure = state.failure
    if failure is None or _cause(state, failure) is None:
        return state, True
    if _objection_to_cause(state, time) is not None:
        settled = min(failure.settled, time)
        return dataclasses.replace(
            state, failure=dataclasses.replace(failure, settled=settled)
        ), False
    return close(state), True


def close(state: State) -> State:
    """Closes the open failure as survived, and charges it to its cause if a recovery has begun."""
    return dataclasses.replace(charged(state), failure=None)


def charged(state: State) -> State:
    """The state in which the open failure, if a recovery has begun, is charged to its likeliest
    cause so far."""
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    if failure is None or number is None or failure.recovery is Recovery.NONE:
        return state
    cause = failure.ends[number]
    charges = _charge(state, cause, failure.begun)
    repeatable = state.repeatable
    if failure.recovery is Recovery.GENERATION:
        repeatable = (failure.generation, _signature(cause))
    return dataclasses.replace(state, charges=charges, repeatable=repeatable)


def _log_by(state: State) -> float:
    """The deadline for the logs of failed containers that are being read; -infinity if none is."""
    ends = state.failure.ends if state.failure else ()
    infos = (state.containers.get(end.container) for end in ends)
    return max((info.log_by for info in infos if info), default=-math.inf)


def _looked(state: State) -> State:
    assert state.failure is not None
    return dataclasses.replace(state, failure=dataclasses.replace(state.failure, looked=True))


def _fail(state: State, time: float, objection: str) -> State:
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    assert failure is not None and number is not None
    cause = failure.ends[number]
    # The failure itself is not counted among the earlier restarts in the verdict.
    verdict = verdicts.failed(state, cause, failure.generation, objection)
    return ending.decide(dataclasses.replace(state, failure=None), time, verdict)


def _ignore(state: State, time: float) -> Step:
    """Ignores the failed instances for which the policy says so. If all are ignored, the failure is
    closed."""
    failure = state.failure
    assert failure is not None
    for end in failure.ends:
        current = state.instances.get(end.id)
        ignored = _action(state, end) == IGNORE
        if not ignored or current is None or not _is_same(current, end):
            continue
        if current.intent is Intent.IGNORE:
            continue
        sentence = verdicts.sentence(end, failure.generation)
        text = f"{sentence}, which is ignored"
        state = state.noted(time, text, IGNORED, end.id, failure.generation)
        state = state.with_instance(dataclasses.replace(current, intent=Intent.IGNORE))
    if _cause(state, failure) is not None:
        return state, ()
    return dataclasses.replace(state, failure=None), ()


def _is_same(current: Instance, end: Instance) -> bool:
    """Whether `end` is the present end of the instance, which has not been restarted since."""
    return current.ended and (current.container, current.attempt) == (end.container, end.attempt)


def _recover(state: State, time: float) -> Step:
    """Begins the recovery for the cause of the open failure, and replaces the containers that were
    lost with it."""
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    assert failure is not None and number is not None
    done: tuple[Action, ...] = ()
    if number != failure.told:
        cause = failure.ends[number]
        sentence = verdicts.sentence(cause, failure.generation)
        text = sentence if failure.told < 0 else f"the cause: {sentence}"
        state = state.noted(time, text, FAILURE, cause.id, failure.generation)
        state = dataclasses.replace(state, failure=dataclasses.replace(failure, told=number))
        if not _forms(state):
            return _begin(state, cause, time)
        state = _with_recovery(state, Recovery.GENERATION)
    if not _forms(state) and failure.recovery is not Recovery.CONTAINER:
        return state, ()
    for i, end in enumerate(failure.ends):
        current = state.instances.get(end.id)
        if current is None or current.intent is Intent.IGNORE or not end.lost:
            continue
        if _is_same(current, end):
            if i != number:
                sentence = verdicts.sentence(end, failure.generation)
                state = state.noted(time, sentence, FAILURE, end.id, failure.generation)
            state, more = _replace(state, current, time)
            done += more
    return state, done


def _begin(state: State, cause: Instance, time: float) -> Step:
    """Begins the first recovery of a failure, for its `cause`."""
    action, delay = _action(state, cause), _back_off(state, time)
    cause = state.instances.get(cause.id, cause)  # its container may have ended since
    if action == RESTART_INSTANCE and state.phase == RUNNING and cause.answer and not cause.lost:
        text = f"{cause.id} starts again at its old address"
        state = state.noted(time, text, RESTARTED, cause.id)
        again = dataclasses.replace(cause, intent=Intent.RESTART, due=time + delay)
        return _with_recovery(state.with_instance(again), Recovery.PROGRAM), ()
    alone = action == RESTART_INSTANCE and cause.role in _REPLACEABLE_ROLES
    if cause.lost and (alone or state.phase == FORMING):
        later = max(state.not_before, time + delay)
        state = dataclasses.replace(state, not_before=later)
        return _replace(_with_recovery(state, Recovery.CONTAINER), cause, time)
    if action == RESTART_INSTANCE and cause.lost:
        state = state.noted(
            time,
            f"{cause.id} gets another address with its new container, and TensorFlow reads those "
            "of the cluster once: all start again",
            REPLACED,
            cause.id,
        )
    return forming.next_generation(_with_recovery(state, Recovery.GENERATION), time, delay)


def _replace(state: State, instance: Instance, time: float) -> Step:
    state = state.noted(time, f"{instance.id} gets another container", REPLACED, instance.id)
    return forming.replace_container(state, instance)


def _with_recovery(state: State, recovery: Recovery) -> State:
    assert state.failure is not None
    return dataclasses.replace(state, failure=dataclasses.replace(state.failure, recovery=recovery))


def restart_programs(state: State, time: float) -> Step:
    """Orders the restart, at their old address, of the programs for which it is due."""
    again = [
        dataclasses.replace(
            instance,
            stage=Stage.WAITING,
            intent=Intent.RUN,
            due=math.inf,
            exit=None,
            report=None,
            attempt=instance.attempt + 1,
            steps_per_second=None,
        )
        for instance in state.instances.values()
        if instance.intent is Intent.RESTART and instance.due <= time
    ]
    if not again:
        return state, ()
    orders = {i.id: Order(state.generation, "restart", attempt=i.attempt) for i in again}
    return state.with_instances(again), (actions.SendOrders(orders),)


# ---- the failure policy -----------------------------------------------------------------------
def _action(state: State, end: Instance) -> str:
    """The policy's action for the end of an instance."""
    assert end.exit is not None
    for rule in state.job.failure.rules:
        if _matches(rule, end.component, end.exit):
            return rule.action
    # A script that took longer than its timeout would do so again.
    default = FAIL_APPLICATION if end.exit.reason == "timeout" else RESTART_CLUSTER
    if end.component in state.job.success:
        return default
    return _ACTION_OF_ROLE.get(end.role, default)


def _matches(rule: FailureRule, component: str, exit: Exit) -> bool:
    if rule.components and component not in rule.components:
        return False
    if not (rule.exit_codes or rule.reasons):
        return True
    codes = {exit.code, _SHELL_SIGNAL + exit.signal if exit.signal else None}
    return exit.reason in rule.reasons or not codes.isdisjoint(rule.exit_codes)


def _objection_to_cause(state: State, time: float) -> str | None:
    """The reason why the open failure ends the application: a sentence, or "" if none is needed.
    None if the application survives it."""
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    assert failure is not None and number is not None
    cause, policy = failure.ends[number], state.job.failure
    exit, charges = cause.exit, state.charges
    assert exit is not None
    if _action(state, cause) == FAIL_APPLICATION:
        return ""
    if exit.reason == "start" and cause.report is None:
        if not cause.container:
            return ""  # the master will never give it a container
        if failure.generation == 1:
            return ""  # its node lacks something: the application is set up wrong
    if exit.reason in INFRASTRUCTURE_REASONS:
        return _spent("maxInfrastructureRestarts", policy.max_losses, charges.losses)
    if policy.max_restarts > 0 and _is_broken(state, cause):
        subject = f"A program that fails within its first {duration(policy.startup)}"
        if exit.reason == "start":
            subject = "An instance that cannot start its program"
        return f"{subject} is taken for broken and is not restarted (failurePolicy.startupSeconds)."
    if policy.max_restarts > 0 and _repeats(state, failure, cause):
        return (
            f"It failed like generation {failure.generation - 1} did, with the same last line and "
            "without a new checkpoint or other progress: the program is taken for broken and is "
            "not restarted (failurePolicy.endOnRepeatedFailure)."
        )
    spent = _spent("maxRestarts", policy.max_restarts, charges.restarts)
    return _over_threshold(state, cause, time) if spent is None else spent


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
    generation, signature = state.repeatable
    return (
        state.job.failure.repeats_end
        and generation == failure.generation - 1
        and signature is not None
        and signature == _signature(cause)
        and cause.report is not None
        and not cause.report.progressed
    )


def _signature(cause: Instance) -> tuple[int, str] | None:
    """The exit code and the last line without numbers: equal for two failures of a broken program.
    None if a signal ended the program, or it wrote nothing."""
    exit, report = cause.exit, cause.report
    if exit is None or report is None or exit.reason != "exit" or not exit.code:
        return None
    if exit.code > _SHELL_SIGNAL:
        return None  # a shell's exit code for a signal
    lines = [line.strip() for line in report.last_lines.splitlines() if line.strip()]
    return (exit.code, _VARIABLE.sub("#", lines[-1])) if lines else None


def _spent(name: str, budget: int, used: int) -> str | None:
    if used < budget:
        return None
    if not budget:
        return ""
    return f"It was not restarted again: that was done {times(used)} (failurePolicy.{name})."


def _over_threshold(state: State, cause: Instance, time: float) -> str | None:
    job = state.job.component(cause.component)
    count = len(_failures(state, cause.component, time)) + 1
    if job.failure_threshold <= 0 or count <= job.failure_threshold:
        return None
    within = f" within {duration(job.failure_window)}" if job.failure_window else ""
    return (
        f"It was not restarted: {cause.component} has failed {times(count)}{within}, more than "
        f"{job.failure_threshold} (yarn.container.failure.threshold)."
    )


# ---- budgets ----------------------------------------------------------------------------------
def _charge(state: State, cause: Instance, time: float) -> Charges:
    """The budgets' use after a failure at `time` was charged to `cause`."""
    assert cause.exit is not None
    charges = dataclasses.replace(state.charges, recent=(*_recently(state, time), time))
    if cause.exit.reason in INFRASTRUCTURE_REASONS:
        return dataclasses.replace(charges, losses=charges.losses + 1)
    components = dict(charges.components)
    components[cause.component] = (*_failures(state, cause.component, time), time)
    return dataclasses.replace(charges, restarts=charges.restarts + 1, components=components)


def _back_off(state: State, time: float) -> float:
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
