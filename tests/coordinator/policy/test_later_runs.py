"""A run that goes on after the loss of its master, from what the lost one has recorded."""

import json
import random

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.policy.test_random_histories import (
    HAPPENINGS,
    LAYOUTS,
    LIMITS,
    POLICIES,
    SLOW,
    drawn,
    happen,
)
from tests.coordinator.world import World, job
from tfapp.contract.encoding import encode
from tfapp.contract.job import Job
from tfapp.contract.names import FAILED, FORMING, RUNNING, STOPPING, initial_container
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.state import FINISHED, State, new_state
from tfapp.coordinator.policy.step import step
from tfapp.coordinator.publisher import status

SINCE = 1000.0  # the application's start, seconds since 1970
LATER = 7.0  # the clock of the next coordinator, which begins anew


def record(state: State) -> ApplicationStatus:
    """The status as the next coordinator reads it."""
    return ApplicationStatus.from_dict(json.loads(encode(status(state, SINCE, SINCE))))


def go_on(state: State, job: Job, why: str = ""):
    return step(new_state(job), events.Started(LATER, record(state), 5.0, lost=True, why=why))


def check(world: World, before: State, event: events.Event, wanted: tuple) -> None:
    state = world.state
    after, done = go_on(state, world.job)
    old = record(state)
    assert set(after.instances) == {i.instance for i in old.instances}, "flexed sizes stay"
    assert after.charges.restarts == old.restarts, "no program is charged"
    elastic = {c.name for c in world.job.components if c.elastic_min}
    joins = {i.id for i in after.instances.values() if i.joins}
    if not state.decided:
        assert joins == {i.instance for i in old.absent if i.component not in elastic}
    assert old.decided == state.verdict, "a verdict is recorded as soon as it is decided"
    if state.decided:
        assert (after.phase, after.verdict, done) == (FINISHED, state.verdict, ())
        assert record(after).verdict == state.verdict
        assert after.generation == old.generation
        for i in old.instances:
            exit = after.instances[i.instance].exit
            assert exit is not None and exit == (i.exit or exit), "they are as they ended"
        assert after.charges.losses == old.losses
        return
    assert after.generation == old.generation + 1
    known, now = old.record, record(after).record
    assert known is not None and now is not None
    assert now.last == known.last
    assert set(now.failures) == set(known.failures), "each component's window goes on"
    budget = state.job.failure.max_losses
    if old.losses >= budget:
        assert (after.phase, done) == (STOPPING, ())
        assert after.verdict is not None and after.verdict.state == FAILED
        assert after.charges.losses == old.losses
    elif after.instances:
        assert after.phase == FORMING and after.verdict is None
        assert after.charges.losses == old.losses + 1
        check_containers(world.job, after, done)
    assert after.charges.losses <= max(budget, old.losses)


def check_containers(job: Job, after: State, done: tuple) -> None:
    """The next master has asked for as many containers as the first. The coordinator asks for
    those that flex has added, and gives back those that it has removed."""
    asked, wanted = set(new_state(job).instances), set(after.instances)
    requests = {a.instance for a in done if isinstance(a, actions.RequestContainer)}
    killed = {a.container for a in done if isinstance(a, actions.KillContainer)}
    assert requests == wanted - asked
    assert killed == {initial_container(name) for name in asked - wanted}
    announced = [a for a in done if isinstance(a, actions.Announce)]
    assert len(announced) == (not requests), "it is announced when every container is asked for"
    assert len(done) == len(requests) + len(killed) + len(announced)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 140), marks=SLOW)])
def test_the_master_is_lost_at_every_event(seeds):
    phases = set()
    for seed in seeds:
        chance = random.Random(seed)
        world = World(drawn(chance.choice(LAYOUTS), chance.choice(LIMITS), chance.choice(POLICIES)))
        world.checks.append(check)
        world.checks.append(lambda world, *_: phases.add(world.state.phase))
        names = tuple(world.state.instances)
        world.begin()
        for _ in range(chance.randrange(60)):
            names = tuple(world.state.instances) or names
            happen(world, chance.choice(HAPPENINGS), chance.choice(names), chance.randrange(24))
    assert {FORMING, STOPPING, FINISHED} <= phases


def test_masters_that_are_lost_one_after_another_spend_the_budget():
    state = new_state(job("worker=2", failure=make_failure_policy(max_losses=2)))
    state, _ = step(state, events.Started(0.0))
    lost = []
    while state.verdict is None:
        state, _ = go_on(state, state.job)
        lost.append((state.generation, state.charges.losses))
    assert lost == [(2, 1), (3, 2), (4, 2)]
    assert state.verdict.summary == (
        "Failed: the application's master was lost. It was not restarted again: that was done "
        "twice (failurePolicy.maxInfrastructureRestarts)."
    )
    said = [moment.text for moment in state.timeline]
    assert said.count("the application's master was lost and is back") == 2


def test_the_reason_of_a_loss_is_told_also_where_it_is_the_last():
    state = new_state(job("worker=1", failure=make_failure_policy(max_losses=1)))
    state, _ = step(state, events.Started(0.0))
    for _ in range(2):
        state, _ = go_on(state, state.job, "it is small")
    said = [moment.text for moment in state.timeline]
    assert said.count("the application's master was lost and is back: it is small") == 1
    assert state.verdict.summary.startswith(
        "Failed: the application's master was lost: it is small. It was not restarted again: "
    )


def test_what_was_about_to_join_is_not_waited_for():
    """It joins the others once it is there."""
    world = World(job("worker=1", failure=make_failure_policy(max_losses=1)))
    world.play("1 all answer\n9 flex worker +1")
    world.lose_master(record(world.state), world.now)
    for newcomer, generation in (("worker/0", 2), ("worker/1", 3)):
        world.advance(world.now + 9)
        world.happen(newcomer, "answers")
        world.happen("all", "answer")
        assert (world.state.phase, world.state.generation) == (RUNNING, generation)
    assert len(world.state.instances) == 2


def test_the_next_master_knows_the_machines_on_which_an_instance_was_lost():
    world = World(job("worker=2", failure=make_failure_policy(max_losses=9)))
    world.play("0 worker/1 on a\n1 all answer\n10 worker/1 is taken for dead\n40 all answer")
    world.lose_master(record(world.state), world.now)
    world.happen("all", "answer")
    world.advance(70)
    world.happen("worker/1", "is", "taken", "for", "dead")
    world.feed(events.Tick(world.now))
    assert "70 another container for worker/1, not on a" in world.log


def test_the_next_master_holds_containers_for_as_long_as_this_one_would():
    limits, failure = make_limits(gang=10), make_failure_policy(max_losses=9)
    world = World(job("worker=2", limits=limits, failure=failure))
    world.play("0 worker/1 waits queue\n1 worker/0 answers\n20")
    assert world.state.given_back == 1
    assert go_on(world.state, world.job)[0].given_back == 1


class Losses:
    """Watches a history across the loss of its masters: what is known is never forgotten."""

    def __init__(self, world: World):
        self.before = record(world.state)
        self.announced: set[int] = set()  # generations of earlier masters
        self.ours: set[int] = set()  # those of this one
        world.checks.append(self.check)

    def lose(self, world: World) -> None:
        self.announced |= self.ours
        self.ours = set()
        world.lose_master(record(world.state), world.now)

    def check(self, world: World, before: State, event: events.Event, wanted: tuple) -> None:
        now, old, policy = record(world.state), self.before, world.job.failure
        assert now.losses >= old.losses or not isinstance(event, events.Started)
        assert now.restarts >= old.restarts or not isinstance(event, events.Started)
        unjudged = world.state.failure is not None  # it is counted, and may be the end
        assert now.losses <= policy.max_losses + unjudged
        assert now.restarts <= policy.max_restarts + unjudged
        assert old.decided in (None, now.decided), "a verdict stays"
        for action in wanted:
            if isinstance(action, actions.Announce):
                assert action.generation not in self.announced, "no generation comes again"
                self.ours.add(action.generation)
        self.before = now


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 250), marks=SLOW)])
def test_histories_with_lost_masters(seeds):
    masters, phases = set(), set()
    for seed in seeds:
        chance = random.Random(seed)
        world = World(drawn(chance.choice(LAYOUTS), chance.choice(LIMITS), chance.choice(POLICIES)))
        names, count = tuple(world.state.instances), 1
        losses = Losses(world)
        world.begin()
        for _ in range(chance.randrange(60)):
            if chance.random() < 0.08:
                phases.add(world.state.phase)
                losses.lose(world)
                count += 1
                continue
            names = tuple(world.state.instances) or names
            happen(world, chance.choice(HAPPENINGS), chance.choice(names), chance.randrange(24))
        world.advance(world.now + 1000)
        assert world.state.phase == FINISHED or world.job.limits.lifetime == 0
        masters.add(count)
    assert {1, 2, 3} <= masters
    assert {FORMING, RUNNING, STOPPING, FINISHED} <= phases
