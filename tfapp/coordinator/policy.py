"""What the coordinator decides, as a pure function: a state and an event in, a state and actions
out. No clock and no I/O: `tfapp.coordinator.loop` turns what happens into events and carries the
actions out.

An application goes FORMING -> RUNNING -> STOPPING -> FINISHED, and back to FORMING for each
generation more. Its verdict is fixed when STOPPING begins: by the success policy, by a failure
that the failure policy does not survive, a deadline, or somebody's word. A failure that comes from
outside (a loss, a signal, a memory kill) is dealt with at once; a program that failed by itself is
held responsible only when nothing of that kind follows within the settle time, in which the next
generation is being formed, or the program starts again, already (`tfapp.coordinator.causes`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract.failure import FAIL_APPLICATION, IGNORE
from tfapp.coordinator import (
    causes,
    deadlines,
    ending,
    events,
    failures,
    flexing,
    formation,
    recovery,
    verdicts,
)
from tfapp.coordinator.actions import Action
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import FINISHED, State


def step(state: State, event: events.Event) -> Step:
    """The state after `event`, and what to do, in this order."""
    if state.phase == FINISHED:
        return state, ()
    return _HANDLERS[type(event)](state, event)


def _begin(state: State, event: events.Started) -> Step:
    state, announced = formation.begin(state, event)
    if not announced:
        state = ending.decide(state, event.time, verdicts.nothing_to_run(state))
    return state, announced


def _stop_requested(state: State, event: events.StopRequested) -> Step:
    """Somebody wants the end. A verdict that came before stands, and so does a failure that is
    to become one: then the rest is told to hurry."""
    if state.decided:
        return ending.hurry(state, event.time), ()
    if state.failure is not None and not _survivable(state, event.time):
        failure = dataclasses.replace(state.failure, due=min(state.failure.due, event.time))
        return dataclasses.replace(state, failure=failure), ()
    done: tuple[Action, ...] = ()
    if causes.goes_on_meanwhile(state):
        state, done = recovery.recover(state, event.time)
    if not state.decided:
        state = ending.decide(state, event.time, verdicts.killed(state, event.message))
    return state, done


def _answered(state: State, event: events.Answered) -> Step:
    state, left = flexing.left(state, event.answer.container, event.answer.generation)
    state, done = formation.answered(state, event)
    return state, (*left, *done)


def _exited(state: State, event: events.Exited) -> Step:
    state, left = flexing.left(state, event.report.container, event.report.generation)
    state, done = ending.exited(state, event)
    return state, (*left, *done)


def _container_ended(state: State, event: events.ContainerEnded) -> Step:
    state, left = flexing.container_ended(state, event)
    state, done = ending.container_ended(state, event)
    return state, (*left, *done)


def _survivable(state: State, time: float) -> bool:
    """Whether the failure that is about to be dealt with would not end the application."""
    assert state.failure is not None
    culprit = state.failure.culprit
    action = failures.action_for(state, culprit)
    if action in (FAIL_APPLICATION, IGNORE):
        return action == IGNORE
    return failures.objection(state, culprit, time) is None


_HANDLERS: Mapping[type, Callable[[State, Any], Step]] = {
    events.Started: _begin,
    events.Requested: formation.requested,
    events.Refused: ending.refused,
    events.Answered: _answered,
    events.Beaten: formation.beaten,
    events.Exited: _exited,
    events.ContainerEnded: _container_ended,
    events.StopRequested: _stop_requested,
    events.FlexRequested: flexing.requested,
    events.Listed: ending.listed,
    events.Tick: deadlines.tick,
}
