"""A coordinator that is killed at every event: the next one goes on, and nothing is different."""

import dataclasses
import enum
import random
import sys
import zlib
from typing import get_args

import pytest

from tests.coordinator.policy.test_random_histories import (
    HAPPENINGS,
    LAYOUTS,
    LIMITS,
    PLANNED,
    POLICIES,
    SLOW,
    drawn,
    happen,
)
from tests.coordinator.world import World
from tfapp.contract.status import SAVES, TAKEN_OVER
from tfapp.coordinator.policy import actions, events, takeover
from tfapp.coordinator.policy.state import Pace, State
from tfapp.coordinator.policy.step import step
from tfapp.coordinator.policy.takeover import Handover
from tfapp.frozen import replace


def handed_over(state, done=()):
    """The state and the actions, as a successor reads them."""
    left = takeover.read(takeover.write(Handover(state, 1, 5.0, (), {}, {}, done)))
    return left.state, left.actions


ASKED = (events.Requested, events.Refused, events.Listed)  # what answers an action


class Mortal(World):
    """A world whose coordinator is killed after each event, when it has done some of what it
    decided. The successor does all of it again: it hears of no answer to what the other did, but
    of all that runners and the master tell without being asked. A container that has come is not
    requested twice."""

    def __init__(self, job):
        super().__init__(job)
        self.deaths = 0
        self.chance = random.Random(1)
        self.dead = False
        self.missed = []
        self.arrived = {}

    def feed(self, *happened):
        if self.dead:
            self.missed += [event for event in happened if not isinstance(event, ASKED)]
            return
        for event in happened:
            before, (after, wanted) = self.state, step(self.state, event)
            for check in self.checks:
                check(self, before, event, wanted)
            self.state, done = handed_over(after, wanted)
            assert (self.state, done) == (after, wanted), type(event)
            self.actions.extend(done)
            self.deaths += 1
            self.die(done[: self.chance.randrange(len(done) + 1)])
            for action in done:
                self.do(action)
            missed, self.missed = self.missed, []
            self.feed(*missed)

    def die(self, done):
        self.dead = True
        for action in done:
            self.do(action)
        self.dead = False

    def request(self, action):
        if action.instance in self.arrived and not self.dead:
            container = self.arrived.pop(action.instance)
            self.feed(events.Requested(self.now, action.instance, container))
            return
        super().request(action)
        if self.dead and action.instance not in self.refused:
            self.arrived[action.instance] = self.runners[action.instance].container

    def order(self, name, order):
        """A runner takes no order of an older generation, and no restart twice
        (`tfapp.runner.policy`)."""
        runner = self.runners[name]
        old = order.generation < runner.generation
        twice = order.action == "restart" and order.attempt <= runner.attempt
        if not (old or twice):
            super().order(name, order)


def history(world_of, seed, happenings=HAPPENINGS, formed=False):
    chance = random.Random(seed)
    world = world_of(drawn(chance.choice(LAYOUTS), chance.choice(LIMITS), chance.choice(POLICIES)))
    world.begin()
    if formed:
        world.happen("all", "answer")
    names = tuple(world.state.instances)
    for _ in range(chance.randrange(60)):
        names = tuple(world.state.instances) or names
        happen(world, chance.choice(happenings), chance.choice(names), chance.randrange(24))
    world.feed(events.StopRequested(world.now, "the history ends"))
    world.advance(world.now + 100)
    return world


def outcome(world):
    state = world.state
    instances = {i.id: (i.state, i.exit, i.joined, i.attempt) for i in state.instances.values()}
    return state.verdict, state.charges, state.generation, state.timeline, instances


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 500), marks=SLOW)])
def test_a_death_at_every_event_of_random_histories_changes_nothing(seeds):
    deaths = 0
    for seed in seeds:
        mortal, other = history(Mortal, seed), history(World, seed)
        assert outcome(mortal) == outcome(other), seed
        deaths += mortal.deaths
    assert deaths > 10 * len(seeds)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=SLOW)])
def test_nor_does_a_death_while_programs_save_before_a_planned_stop(seeds):
    saved = 0
    for seed in seeds:
        mortal, other = (history(each, seed, PLANNED, formed=True) for each in (Mortal, World))
        assert outcome(mortal) == outcome(other), seed
        saved += sum(m.kind == SAVES for m in mortal.state.timeline)
    assert saved >= len(seeds) // 5


PLAIN = {"str": "text", "int": 3, "float": 0.5, "bool": True, "Measure": 1.5}


def made(declared, module):
    """A value of a field that is declared so, in which nothing is empty."""
    if declared.endswith(" | None"):
        return made(declared[: -len(" | None")], module)
    kind, _, inner = declared.removesuffix("]").partition("[")
    if kind == "tuple" and inner.endswith(", ..."):
        return (made(inner[: -len(", ...")], module),) * 2
    if kind == "tuple":
        return tuple(made(one, module) for one in inner.split(", "))
    if kind == "frozenset":
        return frozenset({"a", "b"})
    if kind == "Mapping":
        return {"z": made(inner.removeprefix("str, "), module), "a": made(inner[5:], module)}
    if kind in PLAIN:
        return PLAIN[kind]
    found = getattr(module, kind)
    return [*found][-1] if issubclass(found, enum.Enum) else full(found)


def full(cls):
    module = sys.modules[cls.__module__]
    return cls(**{f.name: made(f.type, module) for f in dataclasses.fields(cls)})


def test_every_field_of_the_state_survives():
    whole = full(State)
    state, _ = handed_over(whole)
    assert state == whole
    assert [*state.instances] == ["z", "a"], "the order of instances is that of the job"


@pytest.mark.parametrize("cls", get_args(actions.Action))
def test_every_action_survives(cls):
    action = full(cls)
    assert handed_over(full(State), (action,))[1] == (action,)


@pytest.mark.parametrize("seed", range(30, 40))
def test_a_heartbeat_alone_writes_nothing(seed):
    world = history(World, seed)
    state = world.state
    beaten = state.with_instances(
        replace(i, step=1000, metrics={"loss": 1.0}, heard=None if i.heard is None else 1e6)
        for i in state.instances.values()
    )
    assert takeover.same(state, replace(beaten, ticked=1e6))
    assert not takeover.same(state, replace(beaten, generation=state.generation + 1))


def running():
    world = World(drawn("chief=1 worker=2", LIMITS[0], POLICIES[1]))
    world.begin()
    world.happen("all", "answer")
    world.advance(world.now + 20)
    return world


def test_the_silence_of_runners_counts_from_the_takeover_on():
    world = running()
    world.now += 1000
    world.feed(events.TakenOver(world.now, {}), events.Tick(world.now))
    for name in world.runners:
        world.beat(name)
    world.advance(world.now + 20)
    assert (world.state.phase, world.state.generation) == ("RUNNING", 1)
    assert world.state.charges.losses == world.state.charges.restarts == 0
    told = [m.text for m in world.state.timeline if m.kind == TAKEN_OVER]
    assert told == ["the coordinator was lost, another one goes on"]


def test_a_takeover_reads_the_newest_heartbeats():
    world = running()
    name = "worker/0"
    beat = world.said(world.runners[name], "running")
    old = replace(beat, generation=0, step=7)
    world.feed(events.TakenOver(world.now, {name: replace(beat, step=99), "worker/1": old}))
    assert world.state.instances[name].step == 99
    assert world.state.instances["worker/1"].step != 7


def test_a_program_that_hung_meanwhile_is_spared_for_stacks():
    world = running()
    beat = world.said(world.runners["worker/0"], "hanging")
    world.feed(events.TakenOver(world.now, {"worker/0": beat}))
    assert world.state.stacks is not None and world.state.stacks.hung == (("worker/0", 0),)


def test_how_long_a_step_may_take_is_written_when_it_is_known_and_as_it_grows():
    """A program that has stalled when the successor comes tells no step again."""
    state = running().state

    def paced(*gaps: float) -> State:
        pace = Pace(len(gaps), 100.0, 110.0, gaps, max(gaps, default=0.0))
        return state.with_instance(replace(state.instances["worker/0"], pace=pace))

    assert takeover.same(paced(), paced())
    assert not takeover.same(paced(), paced(5.0))
    assert takeover.same(paced(5.0), paced(5.0, 6.0, 90.0))
    assert not takeover.same(paced(5.0), paced(5.0, 6.0, 400.0))


def test_what_is_too_large_is_left_without_last_lines(monkeypatch):
    world = running()
    monkeypatch.setattr(takeover, "MAX_SIZE", 0)
    state, _ = handed_over(world.state)
    assert state.instances["worker/0"].points == {}
    assert state.generation == world.state.generation


def test_the_state_of_200_instances_is_small():
    world = World(drawn("chief=1 worker=199", LIMITS[0], POLICIES[1]))
    world.begin()
    world.happen("all", "answer")
    world.advance(world.now + 20)
    written = takeover.write(Handover(world.state, 1, 5.0, (), {}, {}, ()))
    assert len(written) < 64 * 1024


@pytest.mark.parametrize("text", [b"", b"{}", zlib.compress(b"[]"), zlib.compress(b"{}")])
def test_something_else_is_told(text):
    with pytest.raises(ValueError):
        takeover.read(text)
