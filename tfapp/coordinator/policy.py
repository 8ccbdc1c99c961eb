"""What the coordinator decides, as a pure function: a state and an event in, a state and actions
out. No clock and no I/O: `tfapp.coordinator.loop` turns what happens into events and carries the
actions out.

An application goes FORMING -> RUNNING -> STOPPING -> FINISHED, and back to FORMING for each
generation more. Its verdict is fixed when STOPPING begins: by the success policy, by a failure
that the failure policy does not survive, a deadline, or somebody's word. A failure that comes from
outside (a loss, a signal, a memory kill) is dealt with at once; a program that failed by itself is
held responsible only when nothing of that kind follows within the settle time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract import FAIL_APPLICATION
from tfapp.coordinator import deadlines, ending, events, failures, flexing, formation, verdicts
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
    return ending.decide(state, event.time, verdicts.killed(state, event.message)), ()


def _survivable(state: State, time: float) -> bool:
    """Whether the failure that is about to be dealt with would not end the application."""
    assert state.failure is not None
    culprit = state.instances[state.failure.instance]
    if failures.action_for(state, culprit) == FAIL_APPLICATION:
        return False
    return failures.objection(state, culprit, time) is None


_HANDLERS: Mapping[type, Callable[[State, Any], Step]] = {
    events.Started: _begin,
    events.Requested: formation.requested,
    events.Refused: ending.refused,
    events.Answered: formation.answered,
    events.Beaten: formation.beaten,
    events.Exited: ending.exited,
    events.ContainerEnded: ending.container_ended,
    events.StopRequested: _stop_requested,
    events.FlexRequested: flexing.requested,
    events.Listed: ending.listed,
    events.Tick: deadlines.tick,
}
