"""What happened, and how the application ended. A new history is a paragraph of step.txt."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.contract_values import make_failure_policy
from tests.coordinator.histories import LIMITS, Histories
from tests.coordinator.world import NEVER, World, job
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.names import RUNNING, STOPPING
from tfapp.contract.usage import Usage
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import Stage
from tfapp.coordinator.policy.step import step
from tfapp.coordinator.publisher import status
from tfapp.frozen import replace

HISTORIES = Histories(Path(__file__).with_name("step.txt"), NEVER)


@pytest.mark.parametrize("title", HISTORIES.by_title)
def test_history(title, request):
    HISTORIES.check(title, request.config.getoption("--update-golden"))


def test_a_cause_carries_everything_known():
    world = World(job("worker=1")).play("1 all answer\n9 worker/0 exits 3\n20")
    assert world.state.verdict is not None
    cause = world.state.verdict.cause
    assert cause is not None
    assert dataclasses.asdict(cause) == {
        "instance": "worker/0",
        "generation": 1,
        "host": "host-worker-0",
        "container": "worker_0",
        "exit": {"code": 3, "signal": None, "reason": "exit", "text": "exit code 3", "missed": ""},
        "last_lines": "the end",
    }


def test_a_program_that_is_not_seen_to_end_is_told():
    """It waits for a disk that does not answer, such as that of a file server."""
    state = World(job("worker=1 ps=1")).play("1 all answer").state
    state, _ = step(state, events.StopRequested(2.0, "enough"))
    state, _ = step(state, events.Tick(3.0))
    assert {i.stage for i in state.instances.values()} == {Stage.STOPPING}
    state, _ = step(state, events.Exited(4.0, report("ps/0", 1)))
    for time in range(5, 60):
        beat = Beat(1, time, "stopping", container="worker_0")
        state, _ = step(state, events.Beaten(float(time), "worker/0", beat))
        state, _ = step(state, events.Tick(float(time)))
    ends = {i.id: i.exit.text for i in state.instances.values() if i.exit is not None}
    assert ends == {"worker/0": "not seen to end 10 s after its grace", "ps/0": "exit code 1"}


def report(instance: str, generation: int) -> ExitReport:
    exit = Exit(1, None, "exit", "exit code 1")
    return ExitReport(generation, instance, instance.replace("/", "_"), "h", exit, False, "", 1.0)


def test_words_of_another_generation_do_not_count():
    world = World(job("worker=1"))
    world.begin()
    world.feed(
        events.Answered(1.0, Answer(2, "worker/0", "h", "worker_0", {})),
        events.Beaten(1.0, "worker/0", Beat(2, 1, "running")),
    )
    state, wanted = step(world.state, events.Exited(1.0, report("worker/0", 2)))
    assert wanted == ()
    assert state == world.state
    known = state.instances["worker/0"]
    assert (known.state, known.answer, known.exit) == ("REQUESTED", None, None)


def test_words_of_strangers_do_not_count():
    world = World(job("worker=1"))
    world.begin()
    before = world.state
    world.feed(
        events.Answered(1.0, Answer(1, "worker/7", "h", "worker_7", {})),
        events.Beaten(1.0, "worker/7", Beat(1, 1, "running")),
        events.Exited(1.0, report("worker/7", 1)),
        events.ContainerEnded(1.0, "worker/7", "worker_7"),
    )
    assert world.state == before


@pytest.mark.parametrize(
    "word",
    [
        events.Answered(2.0, Answer(1, "worker/0", "h", "worker_0", {})),
        events.Beaten(2.0, "worker/0", Beat(1, 1, "waiting")),
        events.Exited(2.0, report("worker/0", 1)),
    ],
)
def test_who_speaks_has_its_place(word):
    """The scheduler's own word of it may come later, or never."""
    world = World(job("worker=2")).play("1 worker/0 waits queue")
    state, _ = step(world.state, word)
    instance = state.instances["worker/0"]
    assert (instance.held, instance.granted) == ("", 2.0)


def test_of_two_losses_at_once_the_first_is_the_cause():
    world = World(job("worker=2")).play("1 all answer")
    world.feed(
        events.ContainerEnded(2.0, "worker/1", "worker_1"),
        events.ContainerEnded(2.0, "worker/0", "worker_0"),
    )
    world.feed(events.Tick(2.0 + LIMITS.settle))
    verdict = world.state.verdict
    assert verdict is not None
    assert verdict.cause is not None
    assert verdict.cause.instance == "worker/1"


def test_a_report_after_the_loss_changes_nothing():
    world = World(job("worker=2")).play("1 all answer")
    lost = replace(
        world.state.instances["worker/0"], stage=Stage.GONE, exit=Exit(None, None, "lost", "gone")
    )
    before = world.state.with_instance(lost)
    state, wanted = step(before, events.Exited(2.0, report("worker/0", 1)))
    assert (state, wanted) == (before, ())


def test_a_beat_that_crossed_an_order_does_not_hide_it():
    world = World(job("worker=1")).play("1 all answer")
    world.feed(events.Beaten(1.0, "worker/0", Beat(1, 2, "running")))
    assert world.state.instances["worker/0"].state == RUNNING
    world.feed(events.StopRequested(2.0, ""), events.Tick(2.0))
    world.feed(events.Beaten(2.0, "worker/0", Beat(1, 3, "running")))
    assert world.state.instances["worker/0"].state == STOPPING


def test_what_a_runner_prepares_is_known_until_it_answers_or_ends():
    def beat(sequence: int, text: str) -> events.Beaten:
        # Before its first answer it knows of no generation.
        return events.Beaten(1.0, "worker/0", Beat(0, sequence, "waiting", preparing=text))

    def prepares() -> str:
        return status(world.state, 0.0, 0.0).instances[0].preparing

    world = World(job("worker=2"))
    world.begin()
    world.feed(beat(1, "pulling"), beat(2, "pulling, half"))
    assert prepares() == "pulling, half"
    world.answer("worker/0")
    assert prepares() == ""
    world.feed(beat(3, "pulling, half"))  # composed before
    assert prepares() == ""

    world = World(job("worker=2"))
    world.begin()
    world.feed(beat(1, "pulling"), events.Exited(2.0, report("worker/0", 1)))
    assert prepares() == ""


def test_metrics_are_those_of_the_instance_s_last_program_that_reported_some():
    """In the next generation they stay until there are new ones, in another container too."""

    def beat(name: str, generation: int, *measured: object, container: str = "") -> None:
        told = Beat(generation, 1, "running", container=container)
        if measured:
            metrics, step, speed = measured
            told = replace(told, metrics=metrics, step=step, steps_per_second=speed)
        world.feed(events.Beaten(world.now, name, told))

    def measured(name: str) -> tuple[object, ...]:
        found = next(i for i in status(world.state, 0.0, 0.0).instances if i.instance == name)
        return dict(found.metrics), found.step, found.steps_per_second

    world = World(
        job(
            "worker=2",
            limits=replace(LIMITS, heartbeat_lost=0.0),
            failure=make_failure_policy(),
        )
    )
    world.measured = lambda runner: {}  # type: ignore[method-assign]
    world.play("1 all answer\n20")
    assert measured("worker/0") == ({}, None, None)
    beat("worker/0", 1, {"loss": 0.5}, 10, 2.0)
    beat("worker/1", 1, {"loss": "nan"}, 11, 3.0)
    beat("worker/1", 1)
    beat("worker/1", 1, {"other": 1.0}, 12, 9.0, container="worker_7")
    assert measured("worker/0") == ({"loss": 0.5}, 10, 2.0)
    assert measured("worker/1") == ({"loss": "nan"}, 11, 3.0)
    # worker/0 loses its container; worker/1 goes on in its own.
    world.happen("worker/0", "lost")
    world.advance(22)
    assert world.state.generation == 2
    beat("worker/1", 1, {"loss": 9.0}, 99, 9.0)  # sent before
    assert measured("worker/0") == ({"loss": 0.5}, 10, None)
    assert measured("worker/1") == ({"loss": "nan"}, 11, None)
    world.happen("all", "answer")
    beat("worker/0", 2, {"loss": 0.25}, 5, None)
    assert measured("worker/0") == ({"loss": 0.25}, 5, None)
    assert measured("worker/1") == ({"loss": "nan"}, 11, None)
    # What a report says comes from its program's end.
    last = replace(report("worker/1", 2), metrics={"loss": 0.125}, step=20, steps_per_second=4.0)
    world.feed(events.Exited(world.now, last))
    assert measured("worker/1") == ({"loss": 0.125}, 20, 4.0)


@pytest.mark.parametrize("ends", ["worker/0 killed 9", "worker/0 lost"])
def test_what_programs_before_have_used_is_kept(ends):
    class Measuring(World):
        def said(self, runner, state):
            seconds = self.now - runner.began
            memory = 7 if self.state.generation == 1 else 5
            used = Usage(seconds, 1.0, 1.0, 1, memory, memory, 9, 10, 10)
            said = super().said(runner, state)
            return replace(said, usage=used) if runner.program else said

    world = Measuring(job("worker=2", failure=make_failure_policy()))
    world.play(f"1 all answer\n9 worker/0 beats\n9 {ends}\n10 all answer\n14 worker/0 beats")
    assert world.state.generation == 2
    used = status(world.state, 0.0, 0.0).instances[0].usage
    assert (used.seconds, used.memory, used.memory_peak, used.read) == (12.0, 5, 7, 20)
