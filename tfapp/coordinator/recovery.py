"""Carries on after a failure: a program starts again, a container is replaced, or the whole
cluster forms anew."""

from __future__ import annotations

import dataclasses

from tfapp.contract.control import Order
from tfapp.contract.failure import FAIL_APPLICATION, IGNORE, RESTART_INSTANCE
from tfapp.contract.states import FORMING, WAITING
from tfapp.coordinator import actions, causes, ending, failures, formation, verdicts
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import Failure, Instance, State


def recover(state: State, time: float) -> Step:
    """Deals with the failure whose cause is settled: the verdict, or what goes on and how."""
    failure = state.failure
    assert failure is not None
    if causes.forms_meanwhile(state):
        return _go_on_forming(state, failure, time)
    state = dataclasses.replace(state, failure=None)
    if failure.restarted and not failure.outside:
        return causes.next_failure(failures.charge(state, failure.first, time), time)
    instance = state.instances[failure.culprit.id]
    action = failures.action_for(state, instance)
    if action == IGNORE:
        if failure.restarted:
            state = failures.charge(state, failure.first, time)
        return ending.ignore(state, instance, time)
    generation, what = failure.generation, verdicts.sentence(instance, failure.generation)
    if _was_lost_before(state, instance):
        generation -= 1
        state = failures.refund(state)
        what = f"the cause: {verdicts.sentence(instance, generation)}"
    elif _belongs_to_the_last_failure(state, instance, time):
        return _restart(state.noted(time, what), instance, action, time, delay=0.0)
    objection = _objection(state, instance, time)
    if objection is not None:
        verdict = verdicts.failed(state, instance, generation, objection)
        return ending.decide(state, time, verdict), ()
    delay = failures.back_off(state, time)
    state = failures.charge(state.noted(time, what), instance, time)
    return _restart(state, instance, action, time, delay)


def _go_on_forming(state: State, failure: Failure, time: float) -> Step:
    """The next generation is on its way, unless its cause is one that must not be survived. Who
    was lost meanwhile is the next to be dealt with."""
    culprit, state = failure.culprit, dataclasses.replace(state, failure=None)
    if failures.action_for(state, culprit) == IGNORE:
        culprit = failure.first
    if culprit is not failure.first:
        state = state.noted(time, f"the cause: {verdicts.sentence(culprit, failure.generation)}")
    objection = _objection(state, culprit, time)
    if objection is not None:
        verdict = verdicts.failed(state, culprit, failure.generation, objection)
        return ending.decide(state, time, verdict), ()
    return causes.next_failure(failures.charge(state, culprit, time), time)


def _objection(state: State, instance: Instance, time: float) -> str | None:
    """Why the application ends with this failure; None when it goes on."""
    if failures.action_for(state, instance) == FAIL_APPLICATION:
        return ""
    return failures.objection(state, instance, time)


def restart_programs(state: State, time: float) -> Step:
    """Orders for the programs that are to start again at their old address by now."""
    due = [i for i in state.instances.values() if i.restart_at <= time]
    if not due:
        return state, ()
    again = [
        dataclasses.replace(
            instance,
            exit=None,
            report=None,
            state=WAITING,
            attempt=instance.attempt + 1,
            restart_at=float("inf"),
        )
        for instance in due
    ]
    orders = {i.id: Order(state.generation, "restart", attempt=i.attempt) for i in again}
    return state.with_instances(again), (actions.SendOrders(orders),)


def _restart(state: State, instance: Instance, action: str, time: float, delay: float) -> Step:
    alone = state.phase == FORMING or (
        action == RESTART_INSTANCE and instance.role in failures.REPLACEABLE_ROLES
    )
    if instance.lost and alone:
        state = dataclasses.replace(state, not_before=max(state.not_before, time + delay))
        state = state.noted(time, f"{instance.id} gets another container")
        state, done = formation.replace_container(state, instance)
        state, more = causes.next_failure(state, time)
        return state, (*done, *more)
    if failures.alone(state, instance, action):
        state = causes.start_again(state, instance, time, delay)
        return causes.next_failure(state, time)
    return formation.next_generation(state, time, delay)


def _was_lost_before(state: State, instance: Instance) -> bool:
    """Whether a lost instance has not been heard of since this generation began: it was lost in
    the one before, and is the cause of what was charged for that."""
    heard, old = instance.heard, instance.requested_in < state.generation
    silent = heard is not None and heard < state.began
    return state.phase == FORMING and instance.lost and old and silent


def _belongs_to_the_last_failure(state: State, instance: Instance, time: float) -> bool:
    """Whether a container went together with the one for which this generation is formed: a node
    takes all of its containers with it, not all at once."""
    limits = state.job.limits
    return (
        state.phase == FORMING
        and instance.lost
        and instance.requested_in < state.generation
        and time <= state.began + limits.settle + 2 * limits.heartbeat
    )
