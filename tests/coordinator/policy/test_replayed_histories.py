"""Random histories that failed once, step by step."""

from tests.coordinator.policy.test_random_histories import (
    EXITS,
    LIMITS,
    POLICIES,
    Referee,
    drawn,
    final_checks,
)
from tests.coordinator.world import World
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import Stage


def begun(layout, limits, policy):
    world = World(drawn(layout, limits, policy))
    referee = Referee(world)
    world.begin()
    return world, referee


def stop(world):
    world.feed(events.StopRequested(world.now, "enough"))


def test_a_second_stop_leaves_the_grace_of_orders_that_were_given_late():
    world, referee = begun("worker=1", LIMITS[0], POLICIES[0])
    world.answer("worker/0")
    stop(world)
    world.pause(12.0)  # the order is given when it has caught up
    world.pause(1.0)
    given, deadline = world.now, world.state.finish_by
    assert world.log[-1] == "13 stop worker/0 3"
    stop(world)
    assert world.state.finish_by == deadline > given + LIMITS[0].stop_grace
    final_checks(world, referee)


def test_a_report_that_is_read_twice_changes_nothing():
    world, referee = begun("worker=3", LIMITS[0], POLICIES[1])
    world.happen("all", "answer")
    world.report("worker/0", EXITS[0])
    stop(world)
    before, done = world.state, len(world.actions)
    ended = before.instances["worker/0"]
    assert ended.stage is Stage.ENDED
    world.feed(events.Exited(world.now, ended.report))
    assert world.state == before
    assert world.actions[done:] == []
    world.feed(events.Tick(world.now))
    assert world.state.instances["worker/0"].stage is Stage.GONE
    final_checks(world, referee)
