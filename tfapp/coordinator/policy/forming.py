"""Forms a cluster: requests containers, waits for answers, publishes the cluster spec, then
releases the components that commandOrders hold back."""

from __future__ import annotations

import math
from collections.abc import Collection

from tfapp.contract.exit import MACHINE_REASONS
from tfapp.contract.job import ComponentJob
from tfapp.contract.messages import Cluster, Member
from tfapp.contract.names import FORMING, GRANTED, NODES, RUNNING, initial_container
from tfapp.contract.status import BEGINS, GIVEN_BACK, STARTS
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.state import (
    MAX_FAILED_ON,
    Hold,
    Instance,
    Intent,
    Stage,
    State,
    has_left,
    holding,
    longer,
    resumed,
)
from tfapp.coordinator.policy.verdicts import duration
from tfapp.frozen import replace

Step = tuple[State, tuple[Action, ...]]

# The first pause after containers were given back, as a share of the gang deadline: long enough for
# a scheduler to grant them to others.
PAUSE = 0.1

# An instance is STOPPING by an order of the coordinator, not by its heartbeat.
_STAGE_OF_BEAT = {
    "waiting": Stage.WAITING,
    "running": Stage.RUNNING,
    "hanging": Stage.RUNNING,
    "leaving": Stage.RUNNING,
    "stopping": Stage.RUNNING,
}


def begin(state: State, event: events.Started) -> Step:
    """Announces the first generation to the containers that the master requested at its start."""
    now = event.time
    state = replace(state, started=now, began=now, counted=now, ticked=now, seed=event.seed)
    if event.earlier is None:
        return announce(state)
    asked = {i.id for i in state.instances.values()}
    state = resumed(replace(state, before=event.before), event.earlier)
    return _resized(state, asked) if event.lost else announce(state)


def _resized(state: State, asked: Collection[str]) -> Step:
    """Announces the generation after a loss of the master, which has requested the containers of
    `asked`: as many as at the beginning. Those of instances that flex has removed are ended, and
    some are requested for those that it has added. Those that were about to join still are: what
    ran without them does not wait for them."""
    state = _joining(state)
    added = [i for i in state.instances.values() if i.id not in asked]
    state = state.with_instances(replace(i, container="") for i in added)
    surplus = [initial_container(name) for name in asked if name not in state.instances]
    state, announced = announce(state)
    return state, (
        *announced,
        *map(actions.KillContainer, sorted(surplus)),
        *(request(i, state.generation) for i in added),
    )


def _joining(state: State) -> State:
    elastic = {c.name for c in state.job.components if c.elastic_min}  # goes on without them, too
    late = [
        replace(i, intent=Intent.JOIN, joined=state.generation + 1)
        for i in state.instances.values()
        if i.joined >= state.generation and i.component not in elastic
    ]
    return replace(state.with_instances(late), join_by=state.started + state.job.limits.gang)


def requested(state: State, event: events.Requested) -> Step:
    """The master accepted a request. After the last one, the generation is announced."""
    instance = state.instances.get(event.instance)
    if instance is None or instance.container:
        return state, (actions.KillContainer(event.container),)  # it is not wanted any more
    return announce(state.with_instance(replace(instance, container=event.container)))


def waits(state: State, event: events.Waits) -> Step:
    """Notes why a container has not started. Once its runner was heard of, the runner says what the
    instance waits for."""
    instance = state.instances.get(event.instance)
    if instance is None or instance.container != event.container or instance.heard is not None:
        return state, ()
    instance = replace(instance, preparing=event.text)
    if event.kind == GRANTED:
        return state.with_instance(placed(instance, event.time)), ()
    granted = None if event.kind else instance.granted
    return state.with_instance(replace(instance, held=event.kind, granted=granted)), ()


def hold(state: State, time: float) -> Step:
    """Notes whether a scheduler holds containers back. When that ends, the deadline for the
    instances begins to count; until then there is one for the containers that are there."""
    before, held = state.hold, holding(state)
    if not held:
        if before is None:
            return state, ()
        join_by = time + state.job.limits.gang if state.phase == RUNNING else state.join_by
        state = replace(state, hold=None, counted=time, join_by=join_by)
        return announce(state) if state.phase == FORMING else (state, ())
    kind = held[0].held
    now = Hold(kind, time, time) if before is None else before
    if (now.kind == NODES) != (kind == NODES):
        now = replace(now, of_kind=time)
    now = replace(now, kind=kind)
    there = state.phase == FORMING and any(i.granted is not None for i in _expected(state))
    if there and now.back_at == math.inf:
        now = replace(now, back_at=time + longer(state, state.job.limits.gang))
    elif not there:
        now = replace(now, back_at=math.inf)
    return replace(state, hold=now), ()


def remind(state: State, time: float) -> Step:
    """Announces the generation again to runners that wait for longer than the gang deadline: they
    learn from it that their coordinator still waits too."""
    if not waits_long(state):
        return replace(state, reminded=-math.inf), ()
    if time < reminder(state):
        return state, ()
    return announce(replace(state, reminded=time))


def waits_long(state: State) -> bool:
    if state.phase == FORMING:
        return state.hold is not None or state.enough_since < math.inf
    late = (i for i in state.instances.values() if i.intent is Intent.LATE)
    return state.phase == RUNNING and any(i.answer is not None for i in late)


def reminder(state: State) -> float:
    """The time of the next announcement to runners that wait for long; infinity for none."""
    return state.reminded + state.job.limits.gang / 2 if waits_long(state) else math.inf


def give_back(state: State, time: float) -> Step:
    """Gives back all containers of a generation, those that were not granted too: a scheduler holds
    some back, and others may wait for those that are there. All are requested again after a
    pause."""
    hold, all_of_it = state.hold, _expected(state, joining=True)
    assert hold is not None
    there = sum(i.granted is not None for i in all_of_it)
    pause = longer(state, state.job.limits.gang * PAUSE)
    text = (
        f"{there} of {len(all_of_it)} containers were there and waited for the others in vain: all "
        f"are given back to the scheduler, and asked for again in {duration(round(pause))}"
    )
    words = holding(state)[0].preparing
    state = state.with_instances(
        replace(
            fresh(i, state.generation, i.asked),
            intent=i.intent,
            held=hold.kind,
            preparing=words,
        )
        for i in all_of_it
    )
    state = replace(
        state,
        given_back=state.given_back + 1,
        ask_at=time + pause,
        hold=replace(hold, back_at=math.inf),
    ).noted(time, text, GIVEN_BACK)
    return state, tuple(actions.KillContainer(i.container) for i in all_of_it if i.container)


def ask_again(state: State, time: float) -> Step:
    """Requests the containers that were given back."""
    again = [i for i in _expected(state, joining=True) if not i.container]
    state = replace(state, ask_at=math.inf)
    state = state.with_instances(replace(i, asked=time) for i in again)
    return state, tuple(request(i, state.generation) for i in again)


def placed(instance: Instance, time: float) -> Instance:
    """The instance, of whose container it is known that it has a place."""
    granted = time if instance.granted is None else instance.granted
    return replace(instance, granted=granted, held="")


def next_generation(state: State, time: float, delay: float = 0.0) -> Step:
    """Begins the next generation in the containers that are alive, and requests new containers for
    the others. It is announced before those are there, because the announcement makes every runner
    kill its program. The cluster is published after `delay` seconds at the earliest."""
    generation = state.generation + 1
    state = all_needed(state, generation, ended=True)
    instances = {i.id: _again(state, i, generation) for i in state.instances.values()}
    abandoned = (i for i in state.instances.values() if i.lost and i.intent is not Intent.IGNORE)
    ended = tuple(action for instance in abandoned for action in _abandon(instance))
    state = replace(
        state,
        instances=instances,
        generation=generation,
        phase=FORMING,
        began=time,
        counted=time,
        hold=None,
        ask_at=math.inf,
        not_before=time + delay,
        formed=False,
        enough_since=math.inf,
        held=frozenset(),
        listing=False,
    ).noted(time, f"generation {generation} begins", BEGINS)
    living = {i.id: i.container for i in _expected(state, joining=True) if i.container}
    return state, (
        actions.Announce(generation, living),
        *ended,
        *(request(i, generation) for i in _expected(state, joining=True) if not i.container),
    )


def all_needed(state: State, generation: int, ended: bool = False) -> State:
    """The state in which no instance is LATE of a component that has too few others left: they take
    part in `generation`. `ended`: also those that have ended, and get other containers."""
    few = {c.name for c in state.job.components if c.elastic_min and lacks(state, c, ready=False)}
    return state.with_instances(
        replace(i, intent=Intent.RUN, joined=generation)
        for i in state.instances.values()
        if i.intent is Intent.LATE and i.component in few and (ended or not i.ended)
    )


def lacks(state: State, component: ComponentJob, ready: bool = True) -> bool:
    """Whether fewer instances of `component` than a generation needs take part, or fewer of those
    are `ready`. What is ignored, was refused, or has ended before the others begin is not
    needed."""
    mine = [i for i in state.instances.values() if i.component == component.name]
    mine = [i for i in mine if i.intent is not Intent.IGNORE]
    mine = [i for i in mine if not i.ended or (i.due < math.inf if i.joins else not ready)]
    there = sum(not i.joins and (i.answer is not None or not ready) for i in mine)
    return there < min(component.elastic_min, len(mine))


def _again(state: State, instance: Instance, generation: int) -> Instance:
    if instance.joins and (instance.answer is None or not has_left(state, instance)):
        return replace(instance, answer=None, joined=generation + 1)
    if not instance.lost:
        return replace(
            fresh(instance, instance.requested_in, instance.asked),
            container=instance.container,
            host=instance.host,
            heard=instance.heard,
            preparing="" if instance.heard else instance.preparing,
            held=instance.held,
            granted=instance.granted,
            stage=Stage.WAITING,
        )
    ignored = instance.intent is Intent.IGNORE
    return instance if ignored else fresh(instance, generation, state.ticked)


def fresh(instance: Instance, generation: int, asked: float) -> Instance:
    """The instance without a container, which is requested at `asked` for `generation`."""
    answer, exit = instance.answer, instance.exit
    machine = exit is not None and exit.reason in MACHINE_REASONS
    failed_on = (answer.node,) if machine and answer is not None and answer.node else ()
    return Instance(
        instance.id,
        instance.component,
        instance.index,
        instance.role,
        failed_on=(*instance.failed_on, *failed_on)[-MAX_FAILED_ON:],
        requested_in=generation,
        asked=asked,
        joined=instance.joined,
        # Kept until its next program reports metrics.
        metrics=instance.metrics,
        step=instance.step,
        epoch=instance.epoch,
        total=instance.total,
        used=instance.total_usage,
    )


def replace_container(state: State, instance: Instance) -> Step:
    """Asks for another container for an instance that lost its own, in the same generation."""
    again = fresh(instance, state.generation, state.ticked)
    return state.with_instance(again), (*_abandon(instance), request(again, state.generation))


def _abandon(instance: Instance) -> tuple[Action, ...]:
    """Kills the container of a lost instance unless that was done before."""
    over = instance.stage is Stage.GONE
    return () if over else (actions.KillContainer(instance.container),)


def request(instance: Instance, generation: int) -> Action:
    """Asks for its container."""
    return actions.RequestContainer(instance.id, instance.component, generation, instance.avoids)


def _expected(state: State, joining: bool = False) -> tuple[Instance, ...]:
    """The instances that take part in this generation and have not ended."""
    return tuple(i for i in state.instances.values() if not i.ended and (joining or not i.joins))


def announce(state: State) -> Step:
    """Announces the generation when the master has accepted or refused every request."""
    expected = _expected(state, joining=True)
    if not expected or not all(i.container for i in expected):
        return state, ()
    return state, (actions.Announce(state.generation, {i.id: i.container for i in expected}),)


def answered(state: State, event: events.Answered) -> Step:
    """Handles a runner's answer. Answers for another generation, or from a container that is not
    the instance's present one, are ignored."""
    answer = event.answer
    instance = state.instances.get(answer.instance)
    if instance is None or answer.generation != state.generation or instance.ended:
        return state, ()
    if answer.container != instance.container:
        return state, ()
    stage = Stage.WAITING if instance.stage is Stage.REQUESTED else instance.stage
    changed = replace(
        placed(instance, event.time),
        answer=answer,
        host=answer.host,
        heard=event.time,
        stage=stage,
        preparing="",
    )
    replaced = state.phase == RUNNING and instance.answer is None and not instance.joins
    if state.phase == FORMING and instance.intent is Intent.LATE and has_left(state, instance):
        changed = replace(changed, intent=Intent.RUN, joined=state.generation)
    state = state.with_instance(changed)
    if replaced:  # the other programs go on; the new runner needs the cluster
        return state, (actions.PublishCluster(_cluster(state)),)
    return complete(state, event.time)


def complete(state: State, time: float) -> Step:
    """Publishes the cluster when all instances that have not ended are ready. What flex has added
    has its time from then on: nobody has looked before who holds it back."""
    expected = _expected(state)
    if state.phase != FORMING or state.failure is not None or not expected:
        return state, ()
    if not all_answered(state) or state.ticked < state.not_before:
        return state, ()
    if any(component.elastic_min and lacks(state, component) for component in state.job.components):
        return state, ()
    held = frozenset(_held(state))
    state = replace(
        state,
        phase=RUNNING,
        formed=True,
        formed_at=time,
        enough_since=math.inf,
        held=held,
        hold=None,
        join_by=time + state.job.limits.gang,
        given_back=0,
    )
    late = sum(i.intent is Intent.LATE for i in state.instances.values())
    of_all = f"{len(expected)} of {len(expected) + late}" if late else str(len(expected))
    count = f"{of_all} instance{'s' if len(expected) + late > 1 else ''}"
    state = state.noted(time, f"generation {state.generation} starts, {count}", STARTS)
    return state, (actions.PublishCluster(_cluster(state)),)


def all_answered(state: State) -> bool:
    """Whether all instances that have not ended are ready."""
    return all(i.answer is not None for i in _expected(state))


def _cluster(state: State) -> Cluster:
    """All who take part, also those whose program starts again at its address, or may do so."""
    failed = {end.id for end in state.failure.ends} if state.failure is not None else set()
    present = tuple(
        i
        for i in state.instances.values()
        if i.answer is not None and not i.joins
        if not i.ended or i.intent is Intent.RESTART or i.id in failed
    )
    held = tuple(name for name in _held(state) if name in state.held)
    return Cluster(state.generation, tuple(map(_member, present)), held)


def _member(instance: Instance) -> Member:
    answer = instance.answer
    assert answer is not None
    return Member(
        instance=instance.id,
        component=instance.component,
        index=instance.index,
        role=instance.role,
        host=answer.host,
        exports=answer.exports,
        container=instance.container,
    )


def beaten(state: State, event: events.Beaten) -> Step:
    instance, beat = state.instances.get(event.instance), event.beat
    if instance is None or beat.container not in ("", instance.container):
        return state, ()
    host = beat.host or instance.host
    instance = replace(placed(instance, event.time), heard=event.time, host=host)
    if instance.ended:
        return state.with_instance(instance), ()
    preparing = "" if instance.answer else beat.preparing
    instance = replace(instance, preparing=preparing)
    # A heartbeat that was sent before the order to stop may arrive after it.
    if beat.generation == state.generation and instance.stage is not Stage.STOPPING:
        stage = _STAGE_OF_BEAT[beat.state]
        instance = replace(instance, stage=stage, docker=beat.docker, saves=beat.saves)
    if beat.generation == state.generation:
        instance = instance.measured(beat)
    return release(state.with_instance(instance))


def release(state: State) -> Step:
    """Releases the held components whose required components have all started."""
    if state.phase != RUNNING or not state.held:
        return state, ()
    held = state.held.intersection(_held(state))
    if held == state.held:
        return state, ()
    may_start = tuple(c.name for c in state.job.components if c.requires and c.name not in held)
    state = replace(state, held=held)
    return state, (actions.PublishReleased(state.generation, may_start),)


def _held(state: State) -> tuple[str, ...]:
    started = (Stage.RUNNING, Stage.STOPPING)
    pending = {i.component for i in _expected(state) if i.stage not in started}
    return tuple(
        component.name
        for component in state.job.components
        if component.instances and pending.intersection(component.requires)
    )
