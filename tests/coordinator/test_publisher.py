from __future__ import annotations

import dataclasses

import pytest

from tests.coordinator.world import World, job
from tfapp.contract.messages import Beat
from tfapp.contract.status import FeedStatus
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import Stage
from tfapp.coordinator.publisher import (
    INTERVAL,
    METRICS_INTERVAL,
    METRICS_INTERVAL_EACH,
    PREPARING_INTERVAL,
    Publisher,
    progress,
    status,
)


class Sink:
    def __init__(self):
        self.puts = 0
        self.progress = []

    def put(self, key, value):
        self.puts += 1

    def set_progress(self, share):
        self.progress.append(share)


def test_changes_are_published_together_and_a_new_phase_at_once():
    world = World(job("worker=2"))
    now = [0.0]
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    world.begin()
    publisher.publish(world.state)
    publisher.publish(world.state)
    assert sink.puts == 1

    world.answer("worker/0")
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (1, INTERVAL)
    now[0] = INTERVAL
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (2, float("inf"))

    world.answer("worker/1")
    publisher.publish(world.state)
    assert sink.puts == 3
    assert sink.progress == [0.0, 0.05, 0.1]


def test_nothing_new_is_not_published():
    world = World(job("worker=1"))
    now = [0.0]
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    for time in range(5):
        now[0] = float(time)
        world.state = dataclasses.replace(world.state, ticked=float(time))
        publisher.publish(world.state)
    assert sink.puts == 1


def test_progress_goes_from_forming_to_finished():
    world = World(job("worker=2"))
    world.begin()
    seen = [progress(world.state)]
    for line in ("worker/0 answers", "worker/1 answers", "worker/0 exits 0", "worker/1 exits 0"):
        world.happen(*line.split())
        seen.append(round(progress(world.state), 3))
    assert seen == [0.0, 0.05, 0.1, 0.55, 1.0]


def test_it_runs_once_one_of_its_programs_does():
    world = World(job("worker=2"))
    world.play("1 all answer")
    running = tuple(world.state.instances.values())
    first, second = (dataclasses.replace(one, stage=Stage.WAITING) for one in running)
    shown = [
        status(world.state.with_instances(instances), 0.0, 0.0).state
        for instances in ((first, second), (first, running[1]), running)
    ]
    assert shown == ["FORMING", "RUNNING", "RUNNING"]


def test_how_far_the_preparations_are_is_published_now_and_then():
    world = World(job("worker=2"))
    now = [0.0]
    published: list[str] = []
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    world.begin()
    publisher.publish(world.state)
    for second in range(1, 13):
        now[0] = float(second)
        beat = Beat(0, second, "waiting", "", "worker_0", "h", f"pulling, {second} of 100 MiB")
        world.feed(events.Beaten(now[0], "worker/0", beat))
        puts = sink.puts
        publisher.publish(world.state)
        if sink.puts > puts:
            published.append(publisher.status(world.state).instances[0].preparing)
            assert publisher.due() == float("inf")
        else:
            assert now[0] < publisher.due() <= now[0] + PREPARING_INTERVAL
    # With the host, which is new, at once.
    assert published == [f"pulling, {second} of 100 MiB" for second in (1, 6, 11)]
    world.answer("worker/0")
    publisher.publish(world.state)
    assert sink.puts == 5
    assert publisher.status(world.state).instances[0].preparing == ""


@pytest.mark.parametrize("workers", [2, 100])
def test_metrics_are_published_once_a_second_at_most_and_more_rarely_where_they_are_many(workers):
    world = World(job(f"worker={workers}"))
    world.measured = lambda runner: {}  # type: ignore[method-assign]
    world.play("1 all answer")
    now = [0.0]
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    publisher.publish(world.state)
    interval = METRICS_INTERVAL + workers * METRICS_INTERVAL_EACH
    published = [0.0]
    for tenth in range(1, 101):
        now[0] = tenth / 10
        beat = Beat(1, tenth, "running", metrics={"loss": 1.0 / tenth}, step=tenth)
        world.feed(events.Beaten(now[0], f"worker/{tenth % workers}", beat))
        puts = sink.puts
        publisher.publish(world.state)
        if sink.puts > puts:
            published.append(now[0])
    assert len(published) > 3
    pauses = [later - earlier for earlier, later in zip(published, published[1:])]
    assert min(pauses) > interval - 1e-9
    assert max(pauses) < interval + 0.11
    # What else is new takes them along.
    world.happen("worker/0", "exits", "0")
    now[0] += INTERVAL
    puts = sink.puts
    publisher.publish(world.state)
    assert sink.puts == puts + 1


def test_counters_of_a_feed_are_published_as_metrics_are_and_are_there_in_the_end():
    world = World(job("worker=2"))
    world.play("1 all answer")
    now = [0.0]
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    publisher.publish(world.state)
    now[0] = INTERVAL
    world.feed(events.Fed(now[0], FeedStatus(rows=10)))
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (1, METRICS_INTERVAL + 2 * METRICS_INTERVAL_EACH)
    now[0] = publisher.due()
    publisher.publish(world.state)
    assert sink.puts == 2
    world.feed(events.Fed(world.now, FeedStatus(rows=20, over=True)))
    for name in ("worker/0", "worker/1"):
        world.happen(name, "exits", "0")
    publisher.publish(world.state)
    assert sink.puts == 3, "the verdict takes them along"
    assert publisher.newest is not None and publisher.newest.feed == FeedStatus(20, over=True)


def test_it_tells_since_when_an_instance_takes_part():
    world = World(job("worker=2"))
    world.play("1 all answer\n40 flex worker +1\n41 worker/2 answers\n42 all answer")
    assert status(world.state, 0.0, 42.0).joined == {"worker/2": 2}
