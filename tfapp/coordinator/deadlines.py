"""Everything that happens because time has passed. Deadlines pass in ticks only."""

from __future__ import annotations

import dataclasses
import math

from tfapp.contract.states import FORMING
from tfapp.coordinator import (
    actions,
    causes,
    ending,
    events,
    flexing,
    formation,
    recovery,
    verdicts,
)
from tfapp.coordinator.actions import Action
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import FINISHED, Instance, State, fenced

# So many seconds between two ticks mean that the coordinator itself stood still (the loop ticks
# every second): then nobody's silence is known.
PAUSED = 5.0
# So many seconds afterwards no deadline passes: what was said meanwhile may be on its way.
CATCH_UP = 1.0


def tick(state: State, event: events.Tick) -> Step:
    """It is `event.time`, and everything that was said before has been heard."""
    time = event.time
    state = _after_pause(state, time)
    if state.phase == FINISHED or time < state.resumed + CATCH_UP:
        return state, ()
    done: tuple[Action, ...] = ()
    for instance in _silent(state, time):
        state, more = ending.silent(state, instance, time)
        done += more
    if done and not state.decided:
        return state, done  # the next tick, at once, knows what the master says of them
    if not state.decided:
        state, left = flexing.leave(state, time)
        state, more = _go_on(state, time)
        done += (*left, *more)
    if state.decided:
        if _lifetime(state) <= time:
            state = ending.hurry(state, time)
        state, more = ending.stop(state, time)
        done += more
    return state, done


def next_deadline(state: State) -> float:
    """When a tick will change something, if nothing happens before; infinity for never."""
    if state.phase == FINISHED:
        return math.inf
    silence = (_silence(state, instance) for instance in state.instances.values())
    leaving = () if state.decided else (leaving.until for leaving in state.leaving.values())
    return max(min((*_deadlines(state), *silence, *leaving)), state.resumed + CATCH_UP)


def _deadlines(state: State) -> tuple[float, ...]:
    if state.decided:
        waiting = (i.stop_at for i in ending.stoppable(state) if not i.stop_ordered)
        return (_lifetime(state), state.finish_by, *waiting)
    restarts = tuple(i.restart_at for i in state.instances.values())
    if state.failure is not None:
        return (causes.due(state), *restarts)
    return (_gang(state), _lifetime(state), _backed_off(state), flexing.due(state), *restarts)


def _backed_off(state: State) -> float:
    """When a cluster that is complete but for the back-off may be published."""
    waiting = state.phase == FORMING and state.ticked < state.not_before
    return state.not_before if waiting else math.inf


def _after_pause(state: State, time: float) -> State:
    paused = time - state.ticked > PAUSED
    state = dataclasses.replace(state, ticked=time)
    if not paused:
        return state
    state = dataclasses.replace(state, resumed=time)
    heard = (i for i in state.instances.values() if i.heard is not None)
    return state.with_instances(dataclasses.replace(i, heard=time) for i in heard)


def _silent(state: State, time: float) -> tuple[Instance, ...]:
    return tuple(i for i in state.instances.values() if _silence(state, i) <= time)


def _silence(state: State, instance: Instance) -> float:
    """When the silence of `instance` becomes a loss: later than its runner, which cannot reach
    the master, has ended its own program."""
    return math.inf if instance.ended else fenced(state, instance)


def _gang(state: State) -> float:
    if state.phase != FORMING or state.listing:
        return math.inf
    return max(state.began, state.not_before) + state.job.limits.gang


def _lifetime(state: State) -> float:
    """Once the verdict is out, it only matters to those who were given time to finish."""
    if not state.job.limits.lifetime or (state.decided and not ending.unhurried(state)):
        return math.inf
    return state.started + state.job.limits.lifetime


def _go_on(state: State, time: float) -> Step:
    """A deadline that ends the application, the most telling first; else what has waited."""
    done: tuple[Action, ...] = ()
    while state.failure is not None and causes.due(state) <= time and not state.decided:
        state, more = recovery.recover(state, time)
        done += more
    if state.decided:
        return state, done
    if state.failure is not None:
        state, restarted = recovery.restart_programs(state, time)
        return state, (*done, *restarted)
    if _gang(state) <= time:
        return dataclasses.replace(state, listing=True), (*done, actions.ListContainers())
    if _lifetime(state) <= time:
        return ending.decide(state, time, verdicts.lifetime_over(state)), done
    state, restarted = recovery.restart_programs(state, time)
    state, joined = flexing.join(state, time)
    state, formed = formation.complete(state, time)
    # It may have been reached while a failure was open.
    state = ending.check_success(state, time)
    return state, (*done, *restarted, *joined, *formed)
