"""A coordinator that is killed, at every event or at some: the next one goes on, and nothing is
different."""

import dataclasses
import enum
import functools
import math
import random
import sys
import zlib
from collections import Counter
from typing import get_args

import pytest

from tests.coordinator.policy.test_random_histories import (
    ELASTIC_LAYOUTS,
    HAPPENINGS,
    IN_QUEUES,
    LAYOUTS,
    LIMITS,
    PLANNED,
    POLICIES,
    SLOW,
    Referee,
    drawn,
    final_checks,
    happen,
)
from tests.coordinator.world import World
from tfapp.contract.names import FORMING, RUNNING, STOPPING, SUCCEEDED
from tfapp.contract.status import TAKEN_OVER
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
    """A world whose coordinator is killed after each event, or a `rate` of them, when it has done
    some of what it decided. The successor does all of it again. It hears of no answer to what the
    other did, but of all that runners, clients and the master have told without being asked. A
    container that has come is not requested twice. It is there at once, as if nothing had happened,
    or `away` seconds later at most, in which everybody else goes on: then it knows the newest
    heartbeats, and reads of programs' ends first, and of containers' ends last."""

    def __init__(self, job, rate=1.0, away=0.0, seed=1):
        super().__init__(job)
        self.rate, self.away = rate, away
        self.deaths = Counter()  # what it was doing
        self.chance = random.Random(seed)
        self.depth = 0  # of events that follow from actions
        self.dead = False
        self.back_at = math.inf
        self.left = ()  # the actions that it decided last
        self.missed = []
        self.beats = {}
        self.arrived = {}
        self.asked = ()  # what programs were asked last

    def feed(self, *happened):
        for event in happened:
            if self.dead and self.now >= self.back_at:
                self.come_back()
            if not self.dead:
                self.handle(event)
            elif self.away and isinstance(event, events.Beaten):
                self.beats[event.instance] = event.beat
            elif not isinstance(event, (*ASKED, events.Tick)):
                self.missed.append(event)

    def handle(self, event):
        before = self.state
        self.state, wanted = step(before, event)
        for check in self.checks:
            check(self, before, event, wanted)
        self.actions.extend(wanted)
        if self.chance.random() < self.rate:
            self.die(wanted, type(event))
        else:
            self.carry_out(wanted)

    def die(self, wanted, cause):
        after = self.state
        self.state, self.left = handed_over(after, wanted)
        assert (self.state, self.left) == (after, wanted), cause
        self.deaths.update(doing(after))
        self.dead = True
        super().carry_out(wanted[: self.chance.randrange(len(wanted) + 1)])
        # In the midst of other actions it is there at once: those are done to their end.
        self.back_at = self.now if self.depth else self.now + self.chance.uniform(0, self.away)
        if self.back_at <= self.now:
            self.come_back()

    def come_back(self):
        self.dead, self.back_at = False, math.inf
        missed, self.missed = self.missed, []
        beats, self.beats = self.beats, {}
        left, self.left = self.left, ()
        self.depth += 1
        if self.away:
            self.feed(events.TakenOver(self.now, beats))
        self.carry_out(left)
        for event in sorted(missed, key=order_of) if self.away else missed:
            self.feed(replace(event, time=self.now))
        self.depth -= 1

    def carry_out(self, wanted):
        self.depth += 1
        super().carry_out(wanted)
        self.depth -= 1

    def wakes(self):
        return self.back_at if self.dead else super().wakes()

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

    def ask_to_save(self, request):
        """A program does once what it is asked twice (`tfapp.program.saving`)."""
        asked = request.id, request.action
        if asked != self.asked:
            self.asked = asked
            super().ask_to_save(request)


def order_of(event):
    """As the successor reads what has happened (`tfapp.coordinator.loop`)."""
    return isinstance(event, events.ContainerEnded) - isinstance(event, events.Exited)


def doing(state):
    """What a coordinator was doing when it was killed."""
    found = {state.phase}
    found |= {"waits for a queue"} if state.hold is not None else set()
    found |= {"gave back"} if state.ask_at < math.inf else set()
    found |= {"saves"} if state.saving is not None and not state.saving.over else set()
    found |= {i.intent.value for i in state.instances.values() if i.joins}
    return found


def history(seed, world_of):
    """One of those of other tests: of all kinds, in queues, or with programs that save."""
    chance = random.Random(seed)
    happenings = chance.choice((HAPPENINGS, IN_QUEUES, PLANNED))
    layouts = ELASTIC_LAYOUTS if happenings is IN_QUEUES else LAYOUTS
    world = world_of(drawn(chance.choice(layouts), chance.choice(LIMITS), chance.choice(POLICIES)))
    world.seed = seed
    if chance.random() < 0.1:
        world.refused = {chance.choice(tuple(world.state.instances)): "too big"}
    referee = Referee(world)
    world.begin()
    if happenings is PLANNED:
        world.happen("all", "answer")
    names = tuple(world.state.instances)
    for name in names if happenings is IN_QUEUES else ():
        happen(world, "hold" if chance.random() < 0.4 else "advance", name, chance.randrange(3))
    for _ in range(chance.randrange(60)):
        names = tuple(world.state.instances) or names
        happen(world, chance.choice(happenings), chance.choice(names), chance.randrange(24))
    return world, referee


def outcome(world):
    state = world.state
    instances = {i.id: (i.state, i.exit, i.joined, i.attempt) for i in state.instances.values()}
    return state.verdict, state.charges, state.generation, state.timeline, instances


def blocks(fast, slow, weekly, size):
    """Ranges of seeds: the first is run always, the second with the slow tests, then those of each
    week."""
    later = (range(n, min(n + size, weekly)) for n in range(slow, weekly, size))
    return (
        range(fast),
        pytest.param(range(fast, slow), marks=SLOW),
        *(pytest.param(seeds, marks=pytest.mark.weekly) for seeds in later),
    )


DOING = {FORMING, RUNNING, STOPPING, "waits for a queue", "gave back", "saves", "JOIN", "LATE"}


LISTED = (5442, 7381, 7673)  # a container is requested at the deadline, and all are listed


@pytest.mark.parametrize("seeds", [LISTED, *blocks(12, 220, 2000, 600)])
def test_a_death_at_every_event_of_random_histories_changes_nothing(seeds):
    deaths = Counter()
    for seed in seeds:
        (mortal, referee), (other, others) = history(seed, Mortal), history(seed, World)
        for world in (mortal, other):
            world.feed(events.StopRequested(world.now, "the history ends"))
            world.advance(world.now + 100)
        assert outcome(mortal) == outcome(other), seed
        final_checks(mortal, referee)
        final_checks(other, others)
        deaths += mortal.deaths
    assert sum(deaths.values()) > 10 * len(seeds)


@pytest.mark.parametrize("seeds", blocks(30, 250, 10_000, 1000))
def test_random_histories_with_deaths_keep_what_must_hold(seeds):
    """Others go on while the coordinator is away."""
    deaths = Counter()
    for seed in seeds:
        world, referee = history(seed, functools.partial(Mortal, rate=0.1, away=8.0, seed=seed))
        if world.dead:
            world.come_back()
        world.rate = 0.0  # the deadlines that are checked do not pass while it is away
        final_checks(world, referee)
        deaths += world.deaths
    assert min(deaths[what] for what in DOING) >= len(seeds) // 200, deaths


def decided(state):
    """Without a success: that is one at once."""
    failed = state.verdict is not None and state.verdict.state != SUCCEEDED
    return state.generation, state.charges, failed


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 500), marks=SLOW)])
def test_nothing_is_decided_until_the_next_master_after_one_that_leaves(seeds):
    """It tells that once, and coordinators die. What ends meanwhile is judged in the end."""
    happenings = [what for what in PLANNED if what not in ("flex", "stop")]
    seen = Counter()
    for seed in seeds:
        chance = random.Random(seed)
        made = drawn(chance.choice(LAYOUTS), chance.choice(LIMITS), chance.choice(POLICIES))
        world, heard = Mortal(made, 0.1, 4.0, seed), []

        def check(world, before, event, wanted, heard=heard):
            if heard and isinstance(event, events.MasterBack):
                heard.clear()
            assert not heard or decided(world.state) == heard[0], event
            if isinstance(event, events.MasterLeaves):
                heard.append(decided(world.state))

        world.checks.append(check)
        world.begin()
        world.happen("all", "answer")
        for _ in range(chance.randrange(20)):
            name, number = chance.choice(tuple(world.state.instances)), chance.randrange(24)
            happen(world, chance.choice(happenings), name, number)
        world.feed(events.MasterLeaves(world.now, saves=chance.random() < 0.5))
        deaths, before = sum(world.deaths.values()), decided(world.state)
        for _ in range(30):
            name, number = chance.choice(tuple(world.state.instances)), chance.randrange(24)
            happen(world, chance.choice(happenings), name, number)
        seen["deaths"] += sum(world.deaths.values()) > deaths
        world.feed(events.MasterBack(world.now))
        world.advance(world.now + 100)
        seen["judged"] += decided(world.state) != before
    assert min(seen["deaths"], seen["judged"]) >= len(seeds) // 3, seen


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
    world, _ = history(seed, World)
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
