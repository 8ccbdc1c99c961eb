"""Collects failures, begins a recovery for those that the application survives, and judges each
once.

`collect` adds an instance that failed. `look`, at each tick, begins the recovery for the likeliest
cause, and judges the failure when that is due: it becomes the verdict, or is charged to its cause.
`failure_policy` says what follows from the end of an instance, and what speaks against a recovery.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tfapp.contract.exit import INFRASTRUCTURE_REASONS, LOSS_REASONS
from tfapp.contract.job import IGNORE, RESTART_INSTANCE
from tfapp.contract.messages import ExitReport, Order
from tfapp.contract.names import FORMING, RUNNING
from tfapp.contract.status import FAILURE, IGNORED, REPLACED, RESTARTED
from tfapp.coordinator.policy import actions, ending, failure_policy, forming, verdicts
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.failure_policy import action_of
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import Failure, Instance, Intent, Recovery, Stage, State
from tfapp.frozen import replace


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
    counted = [i for i, end in enumerate(failure.ends) if action_of(state, end) != IGNORE]
    return min(counted, key=lambda i: (rank(failure.ends[i]), i), default=None)


# ---- collecting -------------------------------------------------------------------------------
def collect(state: State, instance: Instance, time: float) -> State:
    """Adds `instance`, which has just failed, to the open failure or opens one. If it does not
    belong to the open failure, it waits until that is judged."""
    failure = state.failure
    if failure is None:
        before = _is_old_loss(state, instance) and not _heard_since(state, instance)
        before = before and state.charged < state.generation - 1  # else its failure is closed
        settled = time + state.job.limits.settle
        failure = Failure(state.generation - before, time, settled, (instance,))
    elif _belongs(state, failure, instance, time):
        failure = failure.with_end(instance)
    return replace(state, failure=failure)


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
    end = replace(instance, stage=Stage.ENDED, exit=report.exit, report=report)
    return replace(state, failure=failure.with_end(end))


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


# ---- judgement --------------------------------------------------------------------------------
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
        if state.failure is None:
            continue
        # Seen before the recovery: it makes all instances begin anew.
        state = state.with_failure(progressed=failure_policy.progressed(state, state.failure))
        objection = _objection(state, time)
        if objection is None:
            state, more = _recover(state, time)
            done += more
        state = state.with_failure(looked=True)
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
    if _objection(state, time) is not None:
        _, _, cause = _open(state)
        settled = ready or rank(cause) == 0
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
    if _objection(state, time) is not None:
        return state.with_failure(settled=min(failure.settled, time)), False
    return close(state), True


def close(state: State) -> State:
    """Closes the open failure as survived, and charges it to its cause if a recovery has begun."""
    return replace(charged(state), failure=None)


def charged(state: State) -> State:
    """The state in which the open failure, if a recovery has begun, is charged to its likeliest
    cause so far."""
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    if failure is None or number is None or failure.recovery is Recovery.NONE:
        return state
    cause = failure.ends[number]
    charges = failure_policy.charge(state, cause, failure.begun)
    state = replace(state, charges=charges)
    if failure.recovery is not Recovery.GENERATION:
        return state
    repeatable = failure_policy.repeatable(state, failure, cause)
    return replace(state, repeatable=repeatable, charged=failure.generation)


def _log_by(state: State) -> float:
    """The deadline for the logs of failed containers that are being read; -infinity if none is."""
    ends = state.failure.ends if state.failure else ()
    infos = (state.containers.get(end.container) for end in ends)
    return max((info.log_by for info in infos if info), default=-math.inf)


def _open(state: State) -> tuple[Failure, int, Instance]:
    """The open failure, and its likeliest cause so far, with the index among its ends."""
    failure = state.failure
    number = None if failure is None else _cause(state, failure)
    assert failure is not None and number is not None, "what is ignored is not open"
    return failure, number, failure.ends[number]


def _objection(state: State, time: float) -> str | None:
    failure, _, cause = _open(state)
    return failure_policy.objection(state, failure, cause, time)


def _fail(state: State, time: float, objection: str) -> State:
    failure, _, cause = _open(state)
    # The failure itself is not counted among the earlier restarts in the verdict.
    verdict = verdicts.failed(state, cause, failure.generation, objection)
    return ending.decide(replace(state, failure=None), time, verdict)


def _ignore(state: State, time: float) -> Step:
    """Ignores the failed instances for which the policy says so. If all are ignored, the failure is
    closed."""
    failure = state.failure
    assert failure is not None
    for end in failure.ends:
        current = state.instances.get(end.id)
        ignored = action_of(state, end) == IGNORE
        if not ignored or current is None or not _is_same(current, end):
            continue
        if current.intent is Intent.IGNORE:
            continue
        sentence = verdicts.sentence(end, failure.generation)
        text = f"{sentence}, which is ignored"
        state = state.noted(time, text, IGNORED, end.id, failure.generation)
        state = state.with_instance(replace(current, intent=Intent.IGNORE))
    if _cause(state, failure) is not None:
        return state, ()
    return replace(state, failure=None), ()


def _is_same(current: Instance, end: Instance) -> bool:
    """Whether `end` is the present end of the instance, which has not been restarted since. Where
    it was refused there is no container: the times of the requests tell its ends apart."""
    same = (current.container, current.asked) == (end.container, end.asked)
    return current.ended and same and current.attempt == end.attempt


# ---- recovery ---------------------------------------------------------------------------------
def _recover(state: State, time: float) -> Step:
    """Begins the recovery for the cause of the open failure, and replaces the containers that were
    lost with it."""
    failure, number, cause = _open(state)
    done: tuple[Action, ...] = ()
    if number != failure.told:
        sentence = verdicts.sentence(cause, failure.generation)
        text = sentence if failure.told < 0 else f"the cause: {sentence}"
        state = state.noted(time, text, FAILURE, cause.id, failure.generation)
        state = state.with_failure(told=number)
        if not _forms(state):
            return _begin(state, cause, time)
        state = state.with_failure(recovery=Recovery.GENERATION)
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
    """Begins the first recovery of a failure, for its `cause`: the first of _RECOVERIES that is
    possible."""
    action, delay = action_of(state, cause), failure_policy.back_off(state, time)
    cause = state.instances.get(cause.id, cause)  # its container may have ended since
    alone = action == RESTART_INSTANCE
    recovery, _, begin = next(row for row in _RECOVERIES if row[1](state, cause, alone))
    return begin(state.with_failure(recovery=recovery), cause, alone, time, delay)


def _keeps_its_address(state: State, cause: Instance, alone: bool) -> bool:
    return alone and state.phase == RUNNING and cause.answer is not None and not cause.lost


def _restart_program(state: State, cause: Instance, alone: bool, time: float, delay: float) -> Step:
    state = state.noted(time, f"{cause.id} starts again at its old address", RESTARTED, cause.id)
    again = replace(cause, intent=Intent.RESTART, due=time + delay)
    return state.with_instance(again), ()


def _nobody_knows_its_address(state: State, cause: Instance, alone: bool) -> bool:
    replaceable = alone and cause.role in failure_policy.REPLACEABLE_ROLES
    return cause.lost and (replaceable or state.phase == FORMING)


def _replace_alone(state: State, cause: Instance, alone: bool, time: float, delay: float) -> Step:
    later = max(state.not_before, time + delay)
    return _replace(replace(state, not_before=later), cause, time)


def _form_again(state: State, cause: Instance, alone: bool, time: float, delay: float) -> Step:
    if alone and cause.lost:
        text = (
            f"{cause.id} gets another address with its new container, and TensorFlow reads those "
            "of the cluster once: all start again"
        )
        state = state.noted(time, text, REPLACED, cause.id)
    return forming.next_generation(state, time, delay)


# From the smallest to the largest: what begins, when it is possible, how it begins. `alone`: the
# policy asks for the instance alone.
_RECOVERIES: tuple[tuple[Recovery, Callable[..., bool], Callable[..., Step]], ...] = (
    (Recovery.PROGRAM, _keeps_its_address, _restart_program),
    (Recovery.CONTAINER, _nobody_knows_its_address, _replace_alone),
    (Recovery.GENERATION, lambda *_: True, _form_again),
)


def _replace(state: State, instance: Instance, time: float) -> Step:
    state = state.noted(time, f"{instance.id} gets another container", REPLACED, instance.id)
    return forming.replace_container(state, instance)


def restart_programs(state: State, time: float) -> Step:
    """Orders the restart, at their old address, of the programs for which it is due."""
    again = [
        replace(
            instance,
            stage=Stage.WAITING,
            intent=Intent.RUN,
            due=math.inf,
            exit=None,
            report=None,
            attempt=instance.attempt + 1,
            steps_per_second=None,
            pace=None,
        )
        for instance in state.instances.values()
        if instance.intent is Intent.RESTART and instance.due <= time
    ]
    if not again:
        return state, ()
    orders = {i.id: Order(state.generation, "restart", attempt=i.attempt) for i in again}
    return state.with_instances(again), (actions.SendOrders(orders),)
