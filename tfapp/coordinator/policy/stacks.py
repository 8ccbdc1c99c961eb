"""Before a program that hangs is ended, all programs of its generation tell their stacks: the one
that is silent is seldom the one that all wait for. Its runner spares it until it is told that this
is over, and for a bounded time at most.

So they do, once, when the steps of a chief or worker stop for much longer than usual. That is told,
and nothing follows from it."""

from __future__ import annotations

import math
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.contract.names import CLUSTER_ROLES, RUNNING
from tfapp.contract.stacks import END_LIMIT, StacksRequest, grouped, in_words
from tfapp.contract.status import STALLS
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import AskedStacks, Instance, Pace, Stage, State, live, started
from tfapp.coordinator.policy.verdicts import duration, names
from tfapp.frozen import replace

# Seconds after a request in which another program that hangs does so for the same reason: the first
# may be ended meanwhile, and tells nothing any more.
_RECENT = 10.0
_SILENT = "a place that is not known: its runner has not answered"


def hanging(state: State, event: events.Beaten) -> Step:
    """A runner says that its program hangs. One request serves all that hang at its time."""
    beat, instance = event.beat, state.instances.get(event.instance)
    if instance is None or beat.state != "hanging" or state.phase != RUNNING or state.decided:
        return state, ()
    current = beat.container in ("", instance.container) and beat.generation == state.generation
    if not current or instance.ended or instance.stage is Stage.STOPPING:
        return state, ()
    asked, hung = state.stacks, (instance.id, instance.attempt)
    if asked is not None and asked.generation == state.generation:
        if hung in asked.hung:
            return state, ()
        if not asked.over or (asked.hung and event.time < asked.until + _RECENT):
            asked = replace(asked, hung=(*asked.hung, hung))
            over = (actions.PublishStacks(StacksRequest(asked.id, over=True)),)
            return replace(state, stacks=asked), over if asked.over else ()
    return _ask(state, event.time, hung=(hung,))


def _ask(state: State, time: float, **why: Any) -> Step:
    """Asks all whose programs may run. `why`: the field of AskedStacks that says it."""
    expected = tuple(i.id for i in state.instances.values() if started(state, i) and live(i))
    id = f"{next(iter(why))}-{state.generation}-{time:.3f}"
    asked = AskedStacks(id, state.generation, time + END_LIMIT, expected, gone=_gone(state), **why)
    request = StacksRequest(asked.id, expected, log=True)
    return replace(state, stacks=asked), (actions.PublishStacks(request),)


def told(state: State, event: events.StacksTold) -> Step:
    """The stacks of an instance. Those for a client, or too late, or of another container, count
    for nothing."""
    found, asked = event.stacks, state.stacks
    instance = state.instances.get(found.instance)
    if asked is None or asked.over or found.id != asked.id or instance is None:
        return state, ()
    if found.instance not in asked.expected or found.container != instance.container:
        return state, ()
    asked = replace(asked, places={**asked.places, found.instance: found.place})
    return replace(state, stacks=asked), ()


def settle(state: State, time: float) -> Step:
    """Lets the programs that hang end when all has been told, or has taken too long."""
    asked = state.stacks
    if asked is None or asked.over:
        return state, ()
    waits = (name for name in asked.expected if name not in asked.places)
    left = [name for name in waits if _may_tell(state.instances.get(name))]
    if left and time < asked.until and asked.generation == state.generation:
        return state, ()
    places = {**asked.places, **dict.fromkeys(left, _SILENT)}
    asked = replace(asked, over=True, places=places)
    state = replace(state, stacks=asked)
    stalled = [name for name in asked.stalled if name in state.instances]
    if stalled and asked.generation == state.generation:
        pace = state.instances[stalled[0]].pace
        since = f" for {duration(time - pace.at)}" if pace else ""
        words = _words(asked)
        verb = "has" if len(stalled) == 1 else "have"
        text = f"{names(stalled)} {verb} made no step{since}: {words}"
        instance = stalled[0] if len(stalled) == 1 else ""
        state = state.noted(time, text, STALLS, instance)
    return state, (actions.PublishStacks(StacksRequest(asked.id, over=True)),)


def stall(state: State, time: float) -> Step:
    """Asks for stacks when chiefs or workers begin to stall, and notes that none does any more."""
    if state.phase != RUNNING or state.decided:
        return replace(state, stalled=frozenset()), ()
    stalling = {i.id: i.pace for i in state.instances.values() if i.pace is not None and stalls(i)}
    now, before = frozenset(stalling), state.stalled
    told = [stalling[name] for name in now & before]
    # One after the other stalls for the same reason, unless it has made steps after that was told.
    fresh = [n for n in now - before if all(stalling[n].at > t.at + t.patience for t in told)]
    if not fresh:
        if before and not now and any(_runs(state, name) for name in before):
            state = state.noted(time, "steps are made again", STALLS)
        return replace(state, stalled=now), ()
    if state.stacks is not None and not state.stacks.over:
        return state, ()
    return _ask(replace(state, stalled=now), time, stalled=tuple(sorted(fresh)))


def _runs(state: State, name: str) -> bool:
    instance = state.instances.get(name)
    return instance is not None and instance.stage is Stage.RUNNING


def stalls(instance: Instance) -> bool:
    """Whether a chief or worker has made no step for much longer than usual."""
    trains = instance.role in ("chief", "worker") and instance.stage is Stage.RUNNING
    return trains and instance.pace is not None and instance.pace.stalls


def paced(state: State, event: events.Beaten) -> State:
    """The state with the steps that a heartbeat tells."""
    beat, instance = event.beat, state.instances.get(event.instance)
    count = beat.epoch if beat.step is None else beat.step
    if instance is None or instance.stage is not Stage.RUNNING or count is None:
        return state
    if beat.generation != state.generation or beat.container not in ("", instance.container):
        return state
    pace = Pace(count, event.time, event.time)
    if instance.pace is not None:
        pace = instance.pace.next(count, event.time)
    return state.with_instance(replace(instance, pace=pace))


def _gone(state: State) -> str:
    """The peers for which the others may wait in vain."""
    trains = (i for i in state.instances.values() if i.role in CLUSTER_ROLES)
    told = [f"{i.id} ({i.exit.text})" for i in trains if i.exit is not None]
    verb = "has" if len(told) == 1 else "have"
    return f"{names(told)} {verb} ended before" if told else ""


def _words(asked: AskedStacks) -> str:
    places = in_words(grouped(asked.places.items()))
    return "; ".join(filter(None, (places, asked.gone))) if places else ""


def _may_tell(instance: Instance | None) -> bool:
    return instance is not None and not instance.ended


def due(state: State) -> float:
    """The time at which stacks are waited for no longer; infinity if none are."""
    asked = state.stacks
    return math.inf if asked is None or asked.over else asked.until


def explained(state: State, instance: Instance, exit: Exit) -> Exit:
    """The end of a program that hung, with where all programs were."""
    asked = state.stacks
    if exit.reason != "hang" or asked is None or asked.generation != state.generation:
        return exit
    words = _words(asked)
    if not words or (instance.id, instance.attempt) not in asked.hung:
        return exit
    return replace(exit, text=f"{exit.text}. Before its end, {words}")
