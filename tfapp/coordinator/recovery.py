"""Carries on after a failure: a program starts again, a container is replaced, or the whole
cluster forms anew."""

from __future__ import annotations

import dataclasses

from tfapp.contract import (
    FAIL_APPLICATION,
    FORMING,
    IGNORE,
    RESTART_INSTANCE,
    RUNNING,
    WAITING,
    Order,
)
from tfapp.coordinator import actions, ending, failures, formation, verdicts
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import Instance, State


def recover(state: State, time: float) -> Step:
    """Deals with the failure that is due: the verdict, or what goes on and how."""
    assert state.failure is not None
    instance = state.instances[state.failure.instance]
    state = dataclasses.replace(state, failure=None)
    action = failures.action_for(state, instance)
    if action == IGNORE:
        return ending.ignore(state, instance, time)
    objection = "" if action == FAIL_APPLICATION else failures.objection(state, instance, time)
    what = verdicts.sentence(state, instance)
    if _belongs_to_the_last_failure(state, instance, time):
        state, delay = state.noted(time, what), 0.0
    elif objection is not None:
        return ending.decide(state, time, verdicts.failed(state, instance, objection)), ()
    else:
        state = failures.charge(state.noted(time, what), instance, time)
        delay = failures.back_off(state, time)
    return _restart(state, instance, action, time, delay)


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
        state, more = ending.next_failure(state, time)
        return state, (*done, *more)
    if action == RESTART_INSTANCE and state.phase == RUNNING and _has_address(instance):
        state = state.noted(time, f"{instance.id} starts again at its old address")
        state = state.with_instance(dataclasses.replace(instance, restart_at=time + delay))
        return ending.next_failure(state, time)
    return formation.next_generation(state, time, delay)


def _has_address(instance: Instance) -> bool:
    return instance.answer is not None and not instance.lost


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
