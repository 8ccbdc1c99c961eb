"""Which failure is the cause. The first is, unless one from outside follows within the settle
time: survivors of a lost peer often end before its loss is known.

Where the first failure will be followed by a new cluster whatever its cause, that is formed
meanwhile. The cause is settled once everybody has answered: a runner reports the end of its
program before it answers, and who is lost does not answer. Where it will be followed by a restart
of that program alone, it starts again meanwhile; a new cluster would start it anew.
"""

from __future__ import annotations

import dataclasses
import math

from tfapp.contract.failure import RESTART_CLUSTER, RESTART_INSTANCE
from tfapp.contract.reports import ExitReport
from tfapp.contract.states import SUCCEEDED
from tfapp.coordinator import failures, formation, verdicts
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import OUTSIDE_REASONS, Failure, Instance, State


def note(state: State, instance: Instance, time: float) -> Step:
    """`instance` has just failed: the first to do so, or the likelier cause, or neither."""
    assert instance.exit is not None
    outside = instance.exit.reason in OUTSIDE_REASONS or instance.report is None
    failure = state.failure
    if failure is None:
        due = time if outside else time + state.job.limits.settle
        failure = Failure(instance, instance, state.generation, due, outside)
        return _go_on_meanwhile(dataclasses.replace(state, failure=failure), time)
    # Its program has ended once more: another failure, for later. A loss of it is the cause.
    again = failure.restarted and instance.id == failure.first.id and instance.report is not None
    if outside and instance.requested_in <= failure.generation and not again:
        state = _likelier(state, instance, time)
    return state, ()


def reported_late(state: State, report: ExitReport, time: float) -> State:
    """A program of the generation that failed was over before the next one was announced."""
    failure = state.failure
    if failure is None or report.stopped or report.generation != failure.generation:
        return state
    if report.exit.reason not in OUTSIDE_REASONS:
        return state
    instance = state.instances[report.instance]
    culprit = dataclasses.replace(instance, exit=report.exit, report=report)
    return _likelier(state, culprit, time)


def next_failure(state: State, time: float) -> Step:
    """Notes the failure of somebody who failed while another failure was dealt with."""
    left = (
        i
        for i in state.instances.values()
        if i.exit is not None
        and i.state != SUCCEEDED
        and not (i.ignored or i.joining or i.restart_at < math.inf)
    )
    instance = next(left, None)
    if instance is None or state.decided or state.failure is not None:
        return state, ()
    return note(state, instance, time)


def due(state: State) -> float:
    """When the cause of the open failure is settled; infinity when none is open."""
    failure = state.failure
    if failure is None:
        return math.inf
    settled = forms_meanwhile(state) and formation.all_answered(state)
    return state.ticked if settled else failure.due


def forms_meanwhile(state: State) -> bool:
    """Whether the generation after the one that failed is being formed."""
    return state.failure is not None and state.failure.generation < state.generation


def goes_on_meanwhile(state: State) -> bool:
    """Whether what follows the open failure has begun."""
    restarted = state.failure is not None and state.failure.restarted
    return restarted or forms_meanwhile(state)


def _likelier(state: State, instance: Instance, time: float) -> State:
    failure = state.failure
    if failure is None or failure.outside:
        return state
    failure = dataclasses.replace(failure, culprit=instance, due=time, outside=True)
    return dataclasses.replace(state, failure=failure)


def start_again(state: State, instance: Instance, time: float, delay: float) -> State:
    """The program of `instance` is to start again where it was, after `delay` seconds."""
    state = state.noted(time, f"{instance.id} starts again at its old address")
    return state.with_instance(dataclasses.replace(instance, restart_at=time + delay))


def _go_on_meanwhile(state: State, time: float) -> Step:
    failure = state.failure
    assert failure is not None
    instance = failure.first
    action = failures.action_for(state, instance)
    if failure.outside or action not in (RESTART_CLUSTER, RESTART_INSTANCE):
        return state, ()
    if failures.objection(state, instance, time) is not None:
        return state, ()
    state = state.noted(time, verdicts.sentence(instance, failure.generation))
    delay = failures.back_off(state, time)
    if not failures.alone(state, instance, action):
        return formation.next_generation(state, time, delay)
    state = dataclasses.replace(state, failure=dataclasses.replace(failure, restarted=True))
    return start_again(state, instance, time, delay), ()
