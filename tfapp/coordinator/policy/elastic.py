"""Forms a generation without the instances whose containers do not come, where enough others are
ready, and lets those join that come later.

An instance without which the generation has formed is LATE: its request stays open. It joins with
all others that have come meanwhile, by the next generation: that of a failure, or one for them,
which begins `elastic_interval` after the present one started.
"""

from __future__ import annotations

import math

from tfapp.contract.exit import Exit
from tfapp.contract.job import ComponentJob
from tfapp.contract.names import FORMING, RUNNING
from tfapp.contract.status import RESIZED
from tfapp.coordinator.policy import actions, flexing, forming, verdicts
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import Instance, Intent, Stage, State
from tfapp.coordinator.policy.verdicts import duration
from tfapp.frozen import replace


def go_without(state: State, time: float) -> State:
    """Notes since when enough instances are ready. When the time for the others is over, the
    generation does without them."""
    if state.phase == FORMING:
        state = forming.all_needed(state, state.generation)
    absent = missing(state)
    if not absent:
        return replace(state, enough_since=math.inf)
    state = replace(state, enough_since=min(state.enough_since, time))
    if time < forms_at(state):
        return state
    late = (replace(i, intent=Intent.LATE, joined=state.generation + 1) for i in absent)
    has = "has" if len(absent) == 1 else "have"
    who = f"{verdicts.names([i.id for i in absent])} {has} not come"
    text = f"{who}: generation {state.generation} forms without"
    return state.with_instances(late).noted(time, text, RESIZED)


def missing(state: State) -> tuple[Instance, ...]:
    """The instances for which the generation waits although it could form without them; () where
    it needs one of them."""
    if state.phase != FORMING or not any(c.elastic_min for c in state.job.components):
        return ()
    there = [i for i in state.instances.values() if i.intent is Intent.RUN]
    if any(i.ended and not i.succeeded for i in there):
        return ()  # it gets another container
    absent = tuple(i for i in there if i.answer is None)
    components = {c.name: c for c in state.job.components}
    if not all(_spared(state, i, components[i.component]) for i in absent):
        return ()
    if any(c.elastic_min and forming.lacks(state, c) for c in components.values()):
        return ()
    return absent


def _spared(state: State, instance: Instance, component: ComponentJob) -> bool:
    """Whether a generation may do without it. It may not while a program of the last one may run
    in its container: it would go on beside the others."""
    no_program = instance.heard is None or instance.requested_in == state.generation
    return bool(component.elastic_min) and no_program and instance.id not in state.job.success


def forms_at(state: State) -> float:
    """The time at which the generation forms without those that are missing; infinity where it
    cannot. A container that has its place has as long as it always has to be ready."""
    absent, limits = missing(state), state.job.limits
    if not absent:
        return math.inf
    starting = any(i.granted is not None for i in absent)
    wait = max(limits.elastic_wait, limits.gang) if starting else limits.elastic_wait
    return max(state.enough_since + wait, state.not_before)


def ended(state: State, instance: Instance, time: float) -> Step:
    """Handles the end of an instance that is late, which nobody depends on. Another container is
    requested later, unless it was refused."""
    assert instance.exit is not None
    text = f"{instance.id} does not join: {instance.exit.text}"
    again = time + state.job.limits.elastic_interval if instance.container else math.inf
    runs = instance.stage is not Stage.GONE
    gone = replace(instance, stage=Stage.GONE, answer=None, due=again)
    state = state.with_instance(gone).noted(time, text, RESIZED, instance.id)
    return state, (actions.KillContainer(instance.container),) if runs else ()


def go_on(state: State, time: float) -> Step:
    """Gives up containers that have taken too long to be ready, requests others when that is due,
    and lets those join that have come."""
    given_up: tuple[actions.Action, ...] = ()
    for late in _late(state):
        if _ready_by(state, late) <= time:
            limit = f"{duration(state.job.limits.gang)} (site.global.gang.timeout)"
            exit = Exit(None, None, "deadline", f"its container was not ready within {limit}")
            state, killed = ended(state, replace(late, exit=exit), time)
            given_up += killed
    again = tuple(
        replace(forming.fresh(i, state.generation, time), intent=Intent.LATE, joined=i.joined)
        for i in _late(state)
        if i.ended and i.due <= time
    )
    requests = tuple(forming.request(i, state.generation) for i in again)
    state = state.with_instances(again)
    if _join_at(state) > time:
        return state, (*given_up, *requests)
    state, joined = flexing.all_join(state, time)
    return state, (*given_up, *requests, *joined)


def due(state: State) -> float:
    """The time at which `go_on` has something to do; infinity for never."""
    asked = (i.due for i in _late(state) if i.ended)
    return min((_join_at(state), *asked, *(_ready_by(state, i) for i in _late(state))))


def _join_at(state: State) -> float:
    """The time at which those that have come join; infinity without any. Containers that have their
    place by then are waited for, as long as they have to be ready."""
    late, limits = [i for i in _late(state) if not i.ended], state.job.limits
    if state.phase != RUNNING or not any(flexing.is_ready(state, i) for i in late):
        return math.inf
    until = (by for by in (_ready_by(state, i) for i in late) if by < math.inf)
    return max((state.formed_at + limits.elastic_interval, *until))


def _ready_by(state: State, instance: Instance) -> float:
    """The time by which a container that has its place must be ready; infinity for others."""
    if instance.ended or instance.answer is not None or instance.granted is None:
        return math.inf
    return max(instance.granted, state.began) + state.job.limits.gang


def _late(state: State) -> tuple[Instance, ...]:
    return tuple(i for i in state.instances.values() if i.intent is Intent.LATE)
