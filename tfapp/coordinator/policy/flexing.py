"""Changes the number of a component's instances while the application runs.

New instances start while the training goes on. When they are ready, the next generation forms with
them. Instances that leave do so at once, and the others form the next generation. Where no other
program knows their address, or learns it while it runs, all others go on instead. A new instance
with the number of one that has left waits until the program of the old one has ended, or is refused
until then if it would not wait for others: a runner that is cut off from the master ends its
program later than the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tfapp.contract.job import ComponentJob
from tfapp.contract.messages import FlexReply
from tfapp.contract.names import RUNNING, instance_id
from tfapp.contract.status import RESIZED
from tfapp.coordinator.policy import actions, events, failure_policy, forming, saving, verdicts
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import (
    Failure,
    Instance,
    Intent,
    Leaving,
    Recovery,
    Stage,
    State,
    fenced,
    has_left,
    held_until,
)
from tfapp.frozen import replace


def requested(state: State, event: events.FlexRequested) -> Step:
    """Handles a request for another number of instances, and replies to it."""
    request = event.request
    try:
        component = _component(state, request.component)
        count = _wanted(state, component, request.count)
        _check_left(state, component, count)
    except ValueError as error:
        return state, (actions.ReplyFlex(request.id, FlexReply(False, str(error))),)
    have = _instances(state, component.name)
    text = f"{component.name} goes from {len(have)} to {count} instances"
    if count == len(have):
        text = f"{component.name} has {count} instances already"
    state = state.noted(event.time, text, RESIZED)
    fewer = {name: n for name, n in state.fewer.items() if name != component.name}
    if count < len(have) and not _alone(state, component, False) and saving.comes_first(state):
        state = replace(state, fewer={**fewer, component.name: count})
        state, done = saving.begin(state, event.time)
    else:
        state = replace(state, fewer=fewer)
        state, done = _resize(state, component, have, count, event.time)
    return state, (actions.ReplyFlex(request.id, FlexReply(True, text)), *done)


def shrink(state: State, time: float) -> Step:
    """Removes the instances that have waited for all programs to save."""
    done: tuple[Action, ...] = ()
    fewer, state = state.fewer, replace(state, fewer={})
    for name, count in fewer.items():
        have = _instances(state, name)
        if count < len(have):
            state, more = _resize(state, state.job.component(name), have, count, time)
            done += more
    return state, done


def _component(state: State, name: str) -> ComponentJob:
    if state.decided:
        raise ValueError("the application is about to end")
    try:
        return state.job.component(name)
    except KeyError:
        known = ", ".join(component.name for component in state.job.components)
        raise ValueError(f"there is no component {name!r}; its components: {known}") from None


def _wanted(state: State, component: ComponentJob, text: str) -> int:
    """The requested number of instances. ValueError with a sentence for the user if it is not
    allowed."""
    relative, digits = text[:1] in ("+", "-"), text.lstrip("+-")
    if not (digits.isascii() and digits.isdigit() and len(text) - len(digits) <= 1):
        raise ValueError(f"{text!r} is no number of instances: write 3, +1 or -1")
    now = state.fewer.get(component.name, len(_instances(state, component.name)))
    count = int(text) + (now if relative else 0)
    most = 1 if component.role == "chief" else component.max_instances
    least = component.min_instances
    if component.role == "chief" or component.name in state.job.success:
        least = max(least, min(component.instances, 1))
    for instance in _instances(state, component.name):
        if instance.id in state.job.success:
            least = max(least, instance.index + 1)
    if count < least:
        raise ValueError(f"{component.name} would have {count} instances, and needs {least}")
    if count < component.elastic_min:
        raise ValueError(
            f"{component.name} would have {count} instances, and trains with "
            f"{component.elastic_min} at least (yarn.component.instances.min): ask for so many, or "
            "create the application anew with a lower one"
        )
    if most is not None and count > most:
        raise ValueError(f"{component.name} would have {count} instances, {most} is the most")
    return count


def _check_left(state: State, component: ComponentJob, count: int) -> None:
    """ValueError if a new instance would begin at once, and one of its number may still run."""
    have = len(_instances(state, component.name))
    new = {instance_id(component.name, index) for index in range(have, count)}
    if _alone(state, component, grows=True):
        for leaving in state.leaving.values():
            if leaving.instance in new:
                raise ValueError(f"{leaving.instance} of before has not ended yet: try again later")


def _instances(state: State, component: str) -> list[Instance]:
    return sorted(
        (i for i in state.instances.values() if i.component == component), key=lambda i: i.index
    )


def _resize(
    state: State, component: ComponentJob, have: list[Instance], count: int, time: float
) -> Step:
    grows = count > len(have)
    alone = _alone(state, component, grows)
    if grows:
        new = [
            Instance(
                instance_id(component.name, index),
                component.name,
                index,
                component.role,
                requested_in=state.generation,
                joined=state.generation + (not alone),
                intent=Intent.RUN if alone else Intent.JOIN,
                asked=time,
            )
            for index in range(len(have), count)
        ]
        state = _with_count(state.with_instances(new), component.name)
        if not alone:
            state = replace(state, join_by=time + state.job.limits.gang)
        return state, tuple(
            actions.RequestContainer(i.id, i.component, state.generation) for i in new
        )
    leaving = have[count:]
    state, done = _remove(state, leaving)
    if all(instance.joins for instance in leaving):
        return state, done
    if alone:
        at_work = (i.container for i in leaving if i.container in state.leaving)
        return state, (*done, *map(actions.KillContainer, at_work))
    state, more = forming.next_generation(state, time)
    return state, (*done, *more)


def _alone(state: State, component: ComponentJob, grows: bool) -> bool:
    """Whether the programs of the others go on."""
    roles = failure_policy.ADDED_ALONE_ROLES if grows else failure_policy.REPLACEABLE_ROLES
    return state.phase == RUNNING and component.role in roles


def withdraw(state: State, newcomers: Iterable[Instance], time: float) -> Step:
    """Gives up `newcomers` that cannot join, and the instances of the same component with higher
    numbers, because numbers have no gaps."""
    done: tuple[Action, ...] = ()
    for newcomer in newcomers:
        if newcomer.id not in state.instances:
            continue
        why = newcomer.exit.text if newcomer.exit else "it was not ready in time"
        state = state.noted(time, f"{newcomer.id} does not join: {why}", RESIZED, newcomer.id)
        same = _instances(state, newcomer.component)
        state, more = _remove(state, [i for i in same if i.index >= newcomer.index])
        done += more
    return state, done


def join(state: State, time: float) -> Step:
    """Begins the next generation when all new instances are ready or their deadline has passed."""
    newcomers = [i for i in state.instances.values() if i.intent is Intent.JOIN]
    if not newcomers or state.phase != RUNNING:
        return state, ()
    late = [i for i in newcomers if not is_ready(state, i)]
    if late and time < _join_by(state):
        return state, ()
    state, done = withdraw(state, late, time)
    if not any(i.intent is Intent.JOIN for i in state.instances.values()):
        return state, done
    state, more = all_join(state, time)
    return state, (*done, *more)


def all_join(state: State, time: float) -> Step:
    """Begins the next generation, with all others that are ready. Programs save first."""
    if saving.comes_first(state):
        return saving.begin(state, time)
    ready = [i.id for i in state.instances.values() if i.joins and is_ready(state, i)]
    state = state.noted(time, f"{verdicts.names(ready)} joined", RESIZED)
    return forming.next_generation(state, time)


def is_ready(state: State, newcomer: Instance) -> bool:
    """Whether it can take part in the next generation."""
    return newcomer.answer is not None and not newcomer.ended and has_left(state, newcomer)


def left(state: State, container: str, generation: int) -> Step:
    """Handles a runner's word that no program of a generation before `generation` runs in
    `container`. If the container is leaving, it is killed now."""
    leaving = state.leaving.get(container)
    if leaving is None or generation < leaving.generation:
        return state, ()
    return _let_go(state, (container,))


def container_ended(state: State, event: events.ContainerEnded) -> Step:
    """Handles the end of a container that is leaving. It is ignored while the runner may be alive
    but cut off from the master."""
    leaving = state.leaving.get(event.container)
    if leaving is None or leaving.until - event.time < state.job.limits.heartbeat_lost:
        return state, ()
    return _let_go(state, (event.container,))


def leave(state: State, time: float) -> Step:
    """Kills the leaving containers whose runners were not heard of and must have ended their
    programs by now."""
    over = tuple(name for name, leaving in state.leaving.items() if leaving.until <= time)
    return _let_go(state, over) if over else (state, ())


def _let_go(state: State, containers: tuple[str, ...]) -> Step:
    leaving = {name: who for name, who in state.leaving.items() if name not in containers}
    state = replace(state, leaving=leaving)
    return state, tuple(map(actions.KillContainer, containers))


def due(state: State) -> float:
    """The time at which new instances that are not ready are withdrawn; infinity when there are
    none."""
    joining = any(i.intent is Intent.JOIN for i in state.instances.values())
    return _join_by(state) if joining and state.phase == RUNNING else math.inf


def _join_by(state: State) -> float:
    """Time in which a scheduler holds all new instances back does not count."""
    return state.join_by if state.hold is None else held_until(state)


def _remove(state: State, leaving: Iterable[Instance]) -> Step:
    """Removes the instances `leaving`. A container in which a program may be running stays until
    its runner has ended the program, in the next generation."""
    leaving = tuple(leaving)
    gone = {instance.id for instance in leaving}
    kept = {name: i for name, i in state.instances.items() if name not in gone}
    at_work = tuple(i for i in leaving if _may_have_program(state, i))
    later = {i.container: _leaving(state, i) for i in at_work}
    state = replace(
        state,
        instances=kept,
        failure=_without(state.failure, gone),
        leaving={**state.leaving, **later},
    )
    for component in {instance.component for instance in leaving}:
        state = _with_count(state, component)
    return state, tuple(
        actions.KillContainer(i.container)
        for i in leaving
        if i.container and i.stage is not Stage.GONE and i not in at_work
    )


def _without(failure: Failure | None, gone: set[str]) -> Failure | None:
    """The open failure without the instances `gone`, unless its recovery has begun."""
    if failure is None or failure.recovery is not Recovery.NONE:
        return failure
    ends = tuple(end for end in failure.ends if end.id not in gone)
    return replace(failure, ends=ends) if ends else None


def _may_have_program(state: State, instance: Instance) -> bool:
    unheard = instance.joins or instance.heard is None
    ready = instance.answer is not None and not state.formed
    return not (unheard or ready or instance.ended)


def _leaving(state: State, instance: Instance) -> Leaving:
    # Before the cluster has formed, a program of the previous generation may be running.
    generation = state.generation + state.formed
    return Leaving(instance.id, generation, fenced(state, instance))


def _with_count(state: State, component: str) -> State:
    """The state with the present number of instances of `component` in its job, and its instances
    in job order."""
    counts = {c.name: len(_instances(state, c.name)) for c in state.job.components}
    components = tuple(
        replace(c, instances=counts[c.name]) if c.name == component else c
        for c in state.job.components
    )
    ordered = {i.id: i for component in components for i in _instances(state, component.name)}
    job = replace(state.job, components=components)
    return replace(state, job=job, instances=ordered)
