"""A run that goes on after the loss of its master, from the status that the lost one published."""

import json
import random

import pytest

from tests.contract_values import make_failure_policy
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
from tfapp.contract.names import FAILED, FORMING, STOPPING
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


def go_on(state: State):
    return step(new_state(state.job), events.Started(LATER, record(state), 5.0, lost=True))


def check(world: World, before: State, event: events.Event, wanted: tuple) -> None:
    state = world.state
    after, done = go_on(state)
    old = record(state)
    assert set(after.instances) == {i.instance for i in old.instances}, "flexed sizes stay"
    assert after.charges.restarts == old.restarts, "no program is charged"
    if state.phase == FINISHED:
        assert (after.phase, after.verdict, done) == (FINISHED, old.verdict, ())
        assert record(after).verdict == old.verdict
        assert after.generation == old.generation
        for i in old.instances:
            exit = after.instances[i.instance].exit
            assert exit is not None and exit == (i.exit or exit), "they are as they ended"
        assert after.charges.losses == old.losses
        return
    assert after.generation == old.generation + 1
    budget = state.job.failure.max_losses
    if old.losses >= budget:
        assert (after.phase, done) == (STOPPING, ())
        assert after.verdict is not None and after.verdict.state == FAILED
        assert after.charges.losses == old.losses
    elif after.instances:
        assert after.phase == FORMING and after.verdict is None
        assert after.charges.losses == old.losses + 1
        assert [type(action) for action in done] == [actions.Announce]
    assert after.charges.losses <= max(budget, old.losses)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 2040), marks=SLOW)])
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
        state, _ = go_on(state)
        lost.append((state.generation, state.charges.losses))
    assert lost == [(2, 1), (3, 2), (4, 2)]
    assert state.verdict.summary == (
        "Failed: the application's master was lost. It was not restarted again: that was done "
        "twice (failurePolicy.maxInfrastructureRestarts)."
    )
    said = [moment.text for moment in state.timeline]
    assert said.count("the application's master was lost and is back") == 2
