from __future__ import annotations

import dataclasses

from tests.coordinator.world import World, job
from tfapp.coordinator.publisher import INTERVAL, Publisher
from tfapp.coordinator.status import progress


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
