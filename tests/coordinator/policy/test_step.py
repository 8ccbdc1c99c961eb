"""Histories: what happened, and how the application ended. A new case is a row."""

from __future__ import annotations

import dataclasses

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job
from tfapp.contract.exit import Exit
from tfapp.contract.job import Limits
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.names import RUNNING, STOPPING
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import FINISHED, Stage
from tfapp.coordinator.policy.step import step
from tfapp.coordinator.publisher import status

LIMITS = make_limits(
    gang=60.0,
    lifetime=0.0,
    evaluator=100.0,
    stop_grace=30.0,
    heartbeat=2.0,
    heartbeat_lost=10.0,
    settle=0.5,
)


@dataclasses.dataclass(frozen=True)
class Row:
    layout: str
    history: str
    summary: str
    exit_code: int
    log: tuple[str, ...]  # orders and publications, each with its time
    success: tuple[str, ...] = ()
    limits: Limits = LIMITS


def limits(**changes: float) -> Limits:
    return dataclasses.replace(LIMITS, **changes)


ROWS = {
    "all workers exit 0": Row(
        "worker=2",
        """
        1 all answer
        5 worker/1 exits 0
        7 worker/0 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 6 s.",
        0,
        ("1 cluster worker/0 worker/1", "7 shutdown"),
    ),
    "a chief is enough, the rest is stopped": Row(
        "chief=1 worker=2 ps=1 tensorboard=1",
        """
        1 all answer
        13 chief/0 exits 0
        20
        """,
        "Succeeded: chief/0 ended with exit code 0 after 12 s.",
        0,
        (
            "1 cluster chief/0 worker/0 worker/1 ps/0 tensorboard/0",
            "13 stop worker/0 30",
            "13 stop worker/1 30",
            "13 stop ps/0 30",
            "13 stop tensorboard/0 30",
            "13.5 shutdown",
        ),
    ),
    "workers without a ps may finish with their chief": Row(
        "chief=1 worker=2",
        """
        1 all answer
        5 chief/0 exits 0
        5.1 worker/0 exits 0
        20
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 worker/0 worker/1", "7 stop worker/1 30", "7.5 shutdown"),
    ),
    "a worker that is done before the chief is fine": Row(
        "chief=1 worker=1",
        """
        1 all answer
        3 worker/0 exits 0
        5 chief/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 worker/0", "5 shutdown"),
    ),
    "failures after success are ignored": Row(
        "chief=1 worker=2",
        """
        1 all answer
        5 chief/0 exits 0
        5.1 worker/0 killed 9
        5.2 worker/1 lost
        6
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 worker/0 worker/1", "5.2 shutdown"),
    ),
    "an evaluator may finish its work": Row(
        "chief=1 ps=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        60 evaluator/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 ps/0 evaluator/0", "5 stop ps/0 30", "60 shutdown"),
    ),
    "an evaluator has a limit": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        200
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 evaluator/0", "105 stop evaluator/0 30", "105.5 shutdown"),
    ),
    "a stop after success ends the evaluator, not the verdict": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        9 stop
        20
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 evaluator/0", "9 stop evaluator/0 30", "9.5 shutdown"),
    ),
    "the lifetime after success ends the evaluator, not the verdict": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        20
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 evaluator/0", "10 stop evaluator/0 30", "10.5 shutdown"),
        limits=limits(lifetime=10.0),
    ),
    "an evaluator that dies while waited for changes nothing": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        6 evaluator/0 falls silent
        30
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 evaluator/0", "19 kill evaluator/0", "19 shutdown"),
    ),
    "an evaluator may have no time at all": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        5 chief/0 exits 0
        9
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 evaluator/0", "5 stop evaluator/0 30", "5.5 shutdown"),
        limits=limits(evaluator=0.0),
    ),
    "a program that ignores the order delays the end, not for ever": Row(
        "chief=1 ps=1",
        """
        1 all answer
        2 ps/0 is deaf
        5 chief/0 exits 0
        100
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 ps/0", "5 stop ps/0 30", "45 shutdown"),
    ),
    "a program's failure ends it after the settle time": Row(
        "worker=2",
        """
        1 all answer
        9 worker/1 exits 3
        20
        """,
        "Failed: worker/1 on host-worker-1 ended with exit code 3 in generation 1, "
        "8 s after its start.",
        65,
        ("1 cluster worker/0 worker/1", "9.5 stop worker/0 5", "10 shutdown"),
    ),
    "a signal within the settle time is the cause": Row(
        "chief=1 worker=1",
        """
        1 all answer
        9 worker/0 exits 1
        9.3 chief/0 killed 9
        20
        """,
        "Failed: chief/0 on host-chief-0 was killed by SIGKILL (9) in generation 1, "
        "8.3 s after its start.",
        65,
        ("1 cluster chief/0 worker/0", "9.5 shutdown"),
    ),
    "a loss within the settle time is the cause": Row(
        "chief=1 worker=2",
        """
        1 all answer
        9 worker/0 exits 1
        9.3 chief/0 lost
        20
        """,
        "Failed: chief/0 on host-chief-0 was lost in generation 1: its container ended without "
        "a report: out of luck.",
        65,
        ("1 cluster chief/0 worker/0 worker/1", "9.5 stop worker/1 5", "10 shutdown"),
    ),
    "the first of several failures is the cause": Row(
        "worker=2",
        """
        1 all answer
        9 worker/1 exits 3
        9.1 worker/0 exits 4
        20
        """,
        "Failed: worker/1 on host-worker-1 ended with exit code 3 in generation 1, "
        "8 s after its start.",
        65,
        ("1 cluster worker/0 worker/1", "9.5 shutdown"),
    ),
    "success within the settle time does not undo a failure": Row(
        "chief=1 worker=1",
        """
        1 all answer
        9 worker/0 exits 1
        9.2 chief/0 exits 0
        20
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 1 in generation 1, "
        "8 s after its start.",
        65,
        ("1 cluster chief/0 worker/0", "9.5 shutdown"),
    ),
    "a stop within the settle time does not hide a failure": Row(
        "worker=2",
        """
        1 all answer
        9 worker/0 exits 1
        9.2 stop
        20
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 1 in generation 1, "
        "8 s after its start.",
        65,
        ("1 cluster worker/0 worker/1", "9.2 stop worker/1 5", "9.7 shutdown"),
    ),
    "a ps that fails early is a failure": Row(
        "chief=1 ps=1",
        """
        1 all answer
        2 ps/0 exits 1
        5
        """,
        "Failed: ps/0 on host-ps-0 ended with exit code 1 in generation 1, 1 s after its start.",
        65,
        ("1 cluster chief/0 ps/0", "2.5 stop chief/0 5", "3 shutdown"),
    ),
    "a ps that ends well early is none": Row(
        "chief=1 ps=1",
        """
        1 all answer
        2 ps/0 exits 0
        5 chief/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s.",
        0,
        ("1 cluster chief/0 ps/0", "5 shutdown"),
    ),
    "a failed TensorBoard is only mentioned": Row(
        "chief=1 tensorboard=1",
        """
        1 all answer
        2 tensorboard/0 exits 1
        5 chief/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s. tensorboard/0 ended with exit "
        "code 1. The application does not depend on it.",
        0,
        ("1 cluster chief/0 tensorboard/0", "5 shutdown"),
    ),
    "a TensorBoard that cannot start does not hold up the others": Row(
        "chief=1 tensorboard=1",
        """
        1 chief/0 answers
        2 tensorboard/0 cannot-start no tensorboard is installed
        5 chief/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 3 s. tensorboard/0 could not be started: "
        "no tensorboard is installed. The application does not depend on it.",
        0,
        ("2 cluster chief/0", "5 shutdown"),
    ),
    "a TensorBoard whose container ends at once neither": Row(
        "chief=1 tensorboard=1",
        """
        0 tensorboard/0 lost
        1 chief/0 answers
        5 chief/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 4 s. tensorboard/0 was lost: its "
        "container ended without a report: out of luck. The application does not depend on it.",
        0,
        ("1 cluster chief/0", "5 shutdown"),
    ),
    "success may be defined by TensorBoard": Row(
        "worker=1 tensorboard=1",
        """
        1 all answer
        2 tensorboard/0 exits 1
        5
        """,
        "Failed: tensorboard/0 on host-tensorboard-0 ended with exit code 1 in generation 1, "
        "1 s after its start.",
        65,
        ("1 cluster worker/0 tensorboard/0", "2.5 stop worker/0 5", "3 shutdown"),
        success=("tensorboard",),
    ),
    "a script that fails before anybody trains": Row(
        "worker=2",
        """
        1 worker/0 answers
        2 worker/1 script its scripts/x.py raised ValueError: no
        9
        """,
        "Failed: worker/1 on host-worker-1 failed in the package's script in generation 1: "
        "its scripts/x.py raised ValueError: no.",
        65,
        ("2.5 shutdown",),
    ),
    "a container that ends before it answers": Row(
        "worker=2",
        """
        1 worker/0 answers
        2 worker/1 lost
        9
        """,
        "Failed: worker/1 was lost in generation 1: its container ended without a report: "
        "out of luck.",
        65,
        ("2.5 shutdown",),
    ),
    "a runner that was killed before it answered is known by its heartbeat": Row(
        "worker=2",
        """
        1 worker/0 answers
        2 worker/1 beats
        3 worker/1 lost
        9
        """,
        "Failed: worker/1 on host-worker-1 was lost in generation 1: its container ended without "
        "a report: out of luck.",
        65,
        ("3.5 shutdown",),
    ),
    "the gang deadline names who is missing": Row(
        "chief=1 worker=3",
        """
        1 chief/0 answers
        2 worker/1 answers
        100
        """,
        "Timed out: not all instances were ready 1 min after generation 1 began. Missing: "
        "worker/0 (its container worker_0 runs on h, but its runner has not answered), "
        "worker/2 (its container worker_2 runs on h, but its runner has not answered). "
        "The limit is site.global.gang.timeout.",
        67,
        ("60 shutdown",),
    ),
    "the lifetime": Row(
        "worker=1",
        """
        1 all answer
        30
        """,
        "Timed out: the application ran for its whole lifetime of 20 s. "
        "The limit is site.global.application.lifetime.",
        67,
        ("1 cluster worker/0", "20 stop worker/0 5", "20.5 shutdown"),
        limits=limits(lifetime=20.0),
    ),
    "a silent runner's master knows that its node is lost": Row(
        "worker=2",
        """
        1 all answer
        4 worker/1 is cut off
        10 worker/1 is taken for dead
        30
        """,
        "Failed: worker/1 on host-worker-1 was lost in generation 1: nothing was heard of it "
        "for 14 s: Container released on a *lost* node.",
        65,
        (
            "1 cluster worker/0 worker/1",
            "17 kill worker/1",
            "17 stop worker/0 5",
            "17.5 shutdown",
        ),
    ),
    "a silent runner is lost, later than it has ended its program": Row(
        "worker=2",
        """
        1 all answer
        4 worker/1 falls silent
        30
        """,
        "Failed: worker/1 on host-worker-1 was lost in generation 1: nothing was heard of it "
        "for 14 s.",
        65,
        (
            "1 cluster worker/0 worker/1",
            "17 kill worker/1",
            "17 stop worker/0 5",
            "17.5 shutdown",
        ),
    ),
    "a coordinator that was paused holds nobody's silence against it": Row(
        "worker=1",
        """
        1 all answer
        4 worker/0 falls silent
        10 paused 100
        115 worker/0 exits 0
        """,
        "Succeeded: worker/0 ended with exit code 0 after 1 min 54 s.",
        0,
        ("1 cluster worker/0", "115 shutdown"),
        limits=limits(),
    ),
    "what was said while it was paused is heard before a deadline passes": Row(
        "worker=2",
        """
        1 worker/0 answers
        2 paused 100
        102.5 worker/1 answers
        110 worker/0 exits 0
        111 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 8.5 s.",
        0,
        ("102.5 cluster worker/0 worker/1", "111 shutdown"),
    ),
    "a stop while it forms": Row(
        "worker=2",
        """
        1 worker/0 answers
        2 stop by Ann
        """,
        "Killed: by Ann.",
        66,
        ("2 shutdown",),
    ),
    "a stop while it runs has grace": Row(
        "worker=2",
        """
        1 all answer
        9 stop
        20
        """,
        "Killed: it was asked to stop.",
        66,
        (
            "1 cluster worker/0 worker/1",
            "9 stop worker/0 30",
            "9 stop worker/1 30",
            "9.5 shutdown",
        ),
    ),
    "components start in their order": Row(
        "ps=1 worker=2>ps tensorboard=1>worker",
        """
        1 all answer
        5 worker/0 exits 0
        6 worker/1 exits 0
        20
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 5 s.",
        0,
        (
            "1 cluster ps/0 worker/0 worker/1 tensorboard/0",
            "1 released worker",
            "1 released worker tensorboard",
            "6 stop ps/0 30",
            "6 stop tensorboard/0 30",
            "6.5 shutdown",
        ),
    ),
    "a component that was never released is not waited for": Row(
        "ps=1 worker=1>ps",
        """
        0 ps/0 is deaf
        1 worker/0 answers
        2 ps/0 falls silent
        3 ps/0 answers
        4 stop
        100
        """,
        "Killed: it was asked to stop.",
        66,
        (
            "3 cluster ps/0 worker/0",
            "4 stop ps/0 30",
            "4 stop worker/0 30",
            "17 kill ps/0",
            "17 shutdown",
        ),
    ),
    "without a chief or worker, what ends by itself decides": Row(
        "preprocess=1 ps=1",
        """
        1 all answer
        2 preprocess/0 exits 0
        3 ps/0 exits 0
        """,
        "Succeeded: all 2 instances of preprocess, ps ended with exit code 0 after 2 s.",
        0,
        ("1 cluster preprocess/0 ps/0", "3 shutdown"),
    ),
    "nothing to run": Row(
        "worker=0",
        "1",
        "Failed: no component has an instance. Ask for some with yarn.component.instances.",
        77,
        ("0 shutdown",),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_history(row):
    world = World(job(row.layout, row.success, row.limits)).play(row.history)
    verdict = world.state.verdict
    assert world.state.phase == FINISHED
    assert verdict is not None
    assert (verdict.summary, verdict.exit_code) == (row.summary, row.exit_code)
    assert tuple(world.log) == row.log


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
        "exit": {"code": 3, "signal": None, "reason": "exit", "text": "exit code 3"},
        "last_lines": "the end",
    }


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
    lost = dataclasses.replace(
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
            told = dataclasses.replace(told, metrics=metrics, step=step, steps_per_second=speed)
        world.feed(events.Beaten(world.now, name, told))

    def measured(name: str) -> tuple[object, ...]:
        found = next(i for i in status(world.state, 0.0, 0.0).instances if i.instance == name)
        return dict(found.metrics), found.step, found.steps_per_second

    world = World(job("worker=2", limits=limits(heartbeat_lost=0.0), failure=make_failure_policy()))
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
    last = dataclasses.replace(
        report("worker/1", 2), metrics={"loss": 0.125}, step=20, steps_per_second=4.0
    )
    world.feed(events.Exited(world.now, last))
    assert measured("worker/1") == ({"loss": 0.125}, 20, 4.0)
