"""Programs that hang are spared until all have told where they are, and never for long."""

from __future__ import annotations

import random

import pytest

from tests.coordinator.world import World, job
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat, ExitReport
from tfapp.contract.stacks import END_LIMIT, Frame, InstanceStacks, ProcessStacks, ThreadStack
from tfapp.contract.status import STALLS
from tfapp.coordinator.policy import actions, events, takeover
from tfapp.coordinator.policy.judging import restart_programs
from tfapp.coordinator.policy.stacks import stall
from tfapp.coordinator.policy.state import LEAST_STALL, Intent, Pace, Stage
from tfapp.coordinator.policy.step import next_deadline, step
from tfapp.coordinator.policy.takeover import Handover
from tfapp.coordinator.publisher import status
from tfapp.frozen import replace

HANGS = Exit(None, None, "hang", "for 60 s it wrote nothing")


class Hang:
    """An application whose programs run; `send` gives the requests that the runners get."""

    def __init__(self, layout: str = "worker=3"):
        self.state = World(job(layout)).play("1 all answer").state

    def send(self, event) -> list:
        self.state, done = step(self.state, event)
        return [one.request for one in done if isinstance(one, actions.PublishStacks)]

    def beat(self, time: float, instance: str = "worker/0", **more) -> list:
        told = {"generation": 1, "sequence": 1, "state": "hanging", **more}
        return self.send(events.Beaten(time, instance, Beat(**told)))

    def tell(self, time: float, instance: str, id: str, line: int, container: str = "") -> list:
        frames = (Frame("load", "data.py", line, True),)
        found = ProcessStacks(7, "python", threads=(ThreadStack(frames),))
        container = container or instance.replace("/", "_")
        stacks = InstanceStacks(id, instance, container, 1, (found,))
        return self.send(events.StacksTold(time, stacks)) + self.tick(time)

    def tick(self, time: float) -> list:
        return self.send(events.Tick(time))

    def end(self, time: float, instance: str = "worker/0") -> str:
        """What the end of its program is said to be."""
        container = instance.replace("/", "_")
        report = ExitReport(1, instance, container, "h", HANGS, False, "", 60.0)
        self.send(events.Exited(time, report))
        exit = self.state.instances[instance].exit
        assert exit is not None
        assert (exit.reason, exit.code) == ("hang", None)
        return exit.text


def test_all_programs_are_asked_and_the_end_waits_for_the_last():
    hang = Hang()
    (request,) = hang.beat(5.0)
    assert request.instances == ("worker/0", "worker/1", "worker/2")
    assert (request.over, request.log) == (False, True)
    assert hang.beat(5.2) == []
    assert hang.tell(5.3, "worker/0", request.id, 12) == []
    assert hang.tell(5.4, "worker/2", request.id, 41) == []
    (over,) = hang.tell(5.5, "worker/1", request.id, 41)
    assert (over.id, over.over) == (request.id, True)
    assert hang.end(6.0) == (
        "for 60 s it wrote nothing. Before its end, 2 of 3 are in load at data.py:41; "
        "worker/0 is in load at data.py:12"
    )


def test_who_does_not_answer_is_not_waited_for_long():
    hang = Hang("worker=2")
    (request,) = hang.beat(5.0)
    hang.tell(5.3, "worker/0", request.id, 12)
    assert next_deadline(hang.state) <= 5.0 + END_LIMIT
    assert hang.tick(5.0 + END_LIMIT - 0.1) == []
    (over,) = hang.tick(5.0 + END_LIMIT)
    assert over.over
    assert hang.tick(5.1 + END_LIMIT) == []
    assert hang.beat(9.2) == []  # sent before its runner has heard
    assert "worker/1 is in a place that is not known" in hang.end(9.5)


def test_who_has_ended_meanwhile_is_not_waited_for():
    hang = Hang("worker=2")
    (request,) = hang.beat(5.0)
    hang.tell(5.3, "worker/0", request.id, 12)
    hang.end(5.4, "worker/1")
    (over,) = hang.tick(5.5)
    assert over.over


def test_a_peer_that_has_ended_before_is_named():
    """As a worker is whose failures are ignored, and for which the others wait for ever."""
    hang = Hang("worker=3")
    ended = replace(hang.state.instances["worker/2"], exit=Exit(3, None, "exit", "exit code 3"))
    hang.state = hang.state.with_instance(ended)
    (request,) = hang.beat(5.0)
    assert request.instances == ("worker/0", "worker/1")
    for name in request.instances:
        hang.tell(5.1, name, request.id, 41)
    assert hang.end(6.0).endswith(
        ". Before its end, 2 of 2 are in load at data.py:41; "
        "worker/2 (exit code 3) has ended before"
    )


def test_one_request_serves_all_that_hang_at_once():
    hang = Hang("worker=2")
    (request,) = hang.beat(5.0)
    assert hang.beat(5.1, "worker/1") == []
    hang.tell(5.3, "worker/0", request.id, 12)
    hang.tell(5.4, "worker/1", request.id, 12)
    assert "2 of 2 are in load at data.py:12" in hang.end(6.0, "worker/1")


def test_who_hangs_a_moment_later_does_so_for_the_same_reason():
    """The first is ended by then, and tells nothing any more; both ends say where all were."""
    hang = Hang("worker=2")
    (request,) = hang.beat(5.0)
    hang.tell(5.1, "worker/0", request.id, 12)
    hang.tell(5.2, "worker/1", request.id, 12)
    (over,) = hang.beat(5.3, "worker/1")
    assert (over.id, over.over) == (request.id, True)
    assert hang.beat(5.4, "worker/1") == []
    for name in ("worker/0", "worker/1"):
        assert "2 of 2 are in load at data.py:12" in hang.end(6.0, name)


def test_who_hangs_much_later_is_asked_for_anew():
    hang = Hang("worker=3")
    hang.tick(4.9)
    (first,) = hang.beat(5.0)
    (over,) = hang.tick(9.0)
    assert over.over
    (second,) = hang.beat(60.0, "worker/2")
    assert (second.id != first.id, second.over) == (True, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"generation": 2},
        {"container": "worker_9"},
        {"instance": "worker/9"},
    ],
)
def test_nobody_is_asked_for_a_word_that_is_not_possible_now(wrong):
    hang = Hang()
    before = hang.state.stacks
    assert hang.beat(5.0, **wrong) == []
    assert hang.state.stacks is before is None


def test_nobody_is_asked_before_programs_run_or_once_all_is_decided():
    forming = Hang()
    forming.state = replace(forming.state, phase="FORMING")
    assert forming.beat(5.0) == []
    stopping = Hang()
    stopping.send(events.StopRequested(4.0, "stopped"))
    assert stopping.beat(5.0) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "of a client"},
        {"instance": "worker/9"},
        {"instance": "worker/1", "container": "worker_9"},
    ],
)
def test_stacks_that_nobody_waits_for_count_for_nothing(wrong):
    hang = Hang("worker=2")
    (request,) = hang.beat(5.0)
    before = hang.state.stacks
    hang.tell(5.1, **{"instance": "worker/1", "id": request.id, "line": 3, **wrong})
    assert hang.state.stacks == before
    fresh = Hang("worker=2")
    assert fresh.tell(5.0, "worker/1", "of a client", 3) == []
    assert fresh.state.stacks is None


def test_a_hang_of_which_no_stacks_are_known_is_told_as_before():
    assert Hang().end(5.0) == "for 60 s it wrote nothing"


# ---- steps that stop ----------------------------------------------------------------------------
class Training(Hang):
    """Two workers and a parameter server, which beat every 5 s with the steps that a test says."""

    def __init__(self, layout: str = "worker=2 ps=1"):
        super().__init__(layout)
        self.time = 5.0

    def goes_on(self, seconds: float, **steps: int) -> list:
        """Steps for each 5 s, by component; the others make none."""
        requests = []
        for _ in range(int(seconds / 5)):
            self.time += 5.0
            for instance in self.state.instances.values():
                made = int(self.time / 5) * steps.get(instance.component, 0)
                step = made or (instance.pace.count if instance.pace else 0)
                beat = Beat(1, 1, "running", step=step)
                requests += self.send(events.Beaten(self.time, instance.id, beat))
            requests += self.tick(self.time)
        return requests

    def pace(self, instance: str) -> Pace:
        found = self.state.instances[instance].pace
        assert found is not None
        return found

    def since(self) -> list[float | None]:
        return [i.no_step_since for i in status(self.state, 0.0, 0.0).instances]

    def stalls(self) -> list[str]:
        return [m.text for m in self.state.timeline if m.kind == STALLS]


def test_steps_that_stop_are_told_once_with_the_stacks_and_nothing_is_ended():
    training = Training()
    assert training.goes_on(300, worker=10, ps=1) == []
    last = training.time
    assert training.goes_on(295) == []
    assert training.since() == [None] * 3
    (request,) = training.goes_on(5)
    assert request.instances == ("worker/0", "worker/1", "ps/0")
    assert request.log
    begun = training.state.started
    assert training.since() == [last - begun, last - begun, None]
    training.tell(training.time, "worker/0", request.id, 12)
    training.tell(training.time, "ps/0", request.id, 12)
    (over,) = training.tell(training.time, "worker/1", request.id, 41)
    assert over.over
    assert training.goes_on(3000) == []
    assert training.stalls() == [
        "worker/0, worker/1 have made no step for 5 min: 2 of 3 are in load at data.py:12; "
        "worker/1 is in load at data.py:41"
    ]
    assert (training.state.phase, training.state.verdict) == ("RUNNING", None)
    assert all(not i.ended for i in training.state.instances.values())
    training.goes_on(10, worker=10)
    assert training.since() == [None] * 3
    assert training.stalls()[1:] == ["steps are made again"]


@pytest.mark.parametrize(
    ("before", "longest"),
    [
        pytest.param([20] * 30, 295, id="5 minutes at least"),
        pytest.param([60] * 10, 595, id="ten times the usual"),
        pytest.param([5] * 100 + [200] + [5] * 50, 395, id="twice the longest"),
        pytest.param([], 5000, id="a program that has made no step yet"),
        pytest.param([5, 5], 295, id="a program that has made two steps"),
    ],
)
def test_what_is_usual_is_not_told(before, longest):
    training = Training("worker=1")
    for count, gap in enumerate(before, 1):
        training.goes_on(gap - 5)
        training.time += 5.0
        beat = Beat(1, 1, "running", step=count)
        training.send(events.Beaten(training.time, "worker/0", beat))
        training.tick(training.time)
    assert training.goes_on(longest) == []
    if before:
        assert [request.over for request in training.goes_on(300)] == [False, True]


def test_a_silent_runner_tells_no_stall_and_a_count_that_begins_anew_is_a_step():
    training = Training("worker=1")
    training.goes_on(100, worker=1)
    for second in range(1, 30):
        assert training.tick(training.time + second) == []
    training.time += 30
    beat = Beat(1, 1, "running", step=1)
    training.send(events.Beaten(training.time, "worker/0", beat))
    pace = training.pace("worker/0")
    assert (pace.count, pace.at, pace.longest, pace.stalls) == (1, training.time, 30.0, False)
    assert [request.over for request in training.goes_on(400)] == [False, True]


def test_a_program_that_is_started_again_begins_anew():
    training = Training("worker=1 ps=1")
    training.goes_on(100, worker=1)
    again = replace(training.state.instances["worker/0"], intent=Intent.RESTART, due=training.time)
    training.state, _ = restart_programs(training.state.with_instance(again), training.time)
    assert training.state.instances["worker/0"].pace is None


def test_who_stalls_a_moment_later_is_shown_and_not_asked_for():
    training = Training("worker=2")
    training.goes_on(100, worker=10)
    step = training.state.instances["worker/1"].pace.count + 1
    training.send(events.Beaten(training.time + 3, "worker/1", Beat(1, 1, "running", step=step)))
    assert [request.over for request in training.goes_on(600)] == [False, True]
    assert None not in training.since()
    assert len(training.stalls()) == 1
    assert training.stalls()[0].startswith("worker/0 has made no step")


def test_who_stalls_for_a_reason_of_its_own_is_told_too():
    """It has made steps after the stall of the other one was told."""
    training = Training("worker=1 chief=1")
    training.goes_on(100, worker=10, chief=10)
    training.goes_on(600, chief=10)
    training.goes_on(600)
    assert [text.split()[0] for text in training.stalls()] == ["worker/0", "chief/0"]
    assert training.state.stalled == {"worker/0", "chief/0"}


def test_who_stalls_as_the_other_one_goes_on_is_told_too():
    training = Training("worker=1 chief=1")
    training.goes_on(100, worker=10, chief=10)
    training.goes_on(100, chief=10)
    training.goes_on(295)
    training.goes_on(5, worker=10)
    training.goes_on(50, worker=10)
    assert [text.split()[0] for text in training.stalls()] == ["worker/0", "chief/0"]


def test_of_a_program_that_ends_no_step_is_told():
    training = Training("worker=2 ps=1")
    training.goes_on(100, worker=10)
    training.goes_on(310)
    for instance in tuple(training.state.instances.values())[:2]:
        ended = replace(instance, stage=Stage.ENDED, exit=Exit(3, None, "exit", "exit code 3"))
        training.state, _ = stall(training.state.with_instance(ended), training.time)
    assert training.state.stalled == frozenset()
    assert [text.split()[0] for text in training.stalls()] == ["worker/0,"]


def test_a_slow_first_step_is_not_usual():
    training = Training("worker=1")
    training.goes_on(5, worker=1)
    training.goes_on(140)
    assert training.goes_on(10, worker=1) == []
    assert [request.over for request in training.goes_on(310)] == [False, True]


def test_epochs_count_where_there_are_no_steps():
    training = Training("worker=1")
    for epoch in (0, 1, 2):
        training.time += 5
        beat = Beat(1, 1, "running", epoch=epoch)
        training.send(events.Beaten(training.time, "worker/0", beat))
    pace = training.pace("worker/0")
    assert (pace.count, pace.gaps[-2:]) == (2, (5.0, 5.0))


def test_a_hang_during_a_stall_is_asked_for_anew():
    training = Training("worker=2")
    training.goes_on(100, worker=1)
    (request,) = training.goes_on(300)
    assert training.tick(training.time + END_LIMIT)[0].over
    (hang,) = training.beat(training.time + END_LIMIT + 0.1)
    assert hang.id != request.id
    assert "no step for" in training.stalls()[0]


class History(Training):
    """Two workers whose beats come late and whose counts begin anew, while coordinators are killed
    and a parameter server hangs."""

    LATE = 6.0  # seconds to the next beat, at most
    EVERY = 2.0  # seconds to the next tick, at most

    def __init__(self, seed: int):
        super().__init__("worker=2 ps=1")
        self.chance = random.Random(seed)
        self.usual = self.chance.uniform(1, 60)  # seconds to the next step, at most
        self.counts = dict.fromkeys(("worker/0", "worker/1"), 0)
        self.stopped = tuple(self.counts)  # those that make no steps
        self.state = self.state.with_instances(
            replace(i, pace=None) for i in self.state.instances.values()
        )
        self.left = self.state  # what a successor knows
        self.killed = 0.0  # when a coordinator was, the last time

    def send(self, event) -> list:
        requests = super().send(event)
        if requests or not takeover.same(self.left, self.state):
            self.left = self.state
        return requests

    def lives(self, seconds: float) -> None:
        chance, end = self.chance, self.time + seconds
        steps = dict.fromkeys(self.counts, self.time)
        beats = dict.fromkeys(self.state.instances, self.time)
        while self.time < end:
            self.time += chance.uniform(0.1, self.EVERY)
            for name in [name for name, due in steps.items() if due <= self.time]:
                steps[name] = self.time + chance.uniform(0.5, 1) * self.usual
                if name not in self.stopped:
                    before = self.counts[name]
                    anew = chance.random() < 0.1
                    self.counts[name] = chance.randrange(before + 1) if anew else before + 1000
            for name in [name for name, due in beats.items() if due <= self.time]:
                beats[name] = self.time + chance.uniform(0.1, self.LATE)
                self.send(events.Beaten(self.time, name, self.said(name)))
            if chance.random() < 0.002:
                self.is_killed()
            if chance.random() < 0.003:
                self.beat(self.time, "ps/0")
            self.tick(self.time)

    def said(self, name: str) -> Beat:
        return Beat(1, 1, "running", step=self.counts.get(name))

    def is_killed(self) -> None:
        written = takeover.write(Handover(self.left, 1, 5.0, (), {}, {}, ()))
        self.state, self.killed = takeover.read(written).state, self.time
        beats = {name: self.said(name) for name in self.state.instances}
        self.send(events.TakenOver(self.time, beats))


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 20), marks=pytest.mark.slow)])
def test_every_stall_is_told_in_time_and_nothing_else(seeds):
    """Of a program that has told a few steps, however slow the first one was."""
    for seed in seeds:
        history = History(seed)
        chance = history.chance
        first = chance.uniform(1, 140)
        history.lives(first)
        history.stopped = ()
        history.lives(5 * (history.usual + history.LATE + history.EVERY))
        assert history.stalls() == [], seed
        history.stopped = chance.choice((("worker/0",), ("worker/1",), ("worker/0", "worker/1")))
        stops = history.time
        # A gap is seen when a beat comes. A successor knows the patience within a factor of two.
        gap = history.usual + history.LATE + history.EVERY
        limit = max(LEAST_STALL, 10 * gap, 2 * (first + gap)) + gap + 2 * END_LIMIT
        while history.time < max(stops, history.killed) + limit * (2 if history.killed else 1):
            history.lives(20)
        told = [text.partition(" ha")[0].split(", ") for text in history.stalls()]
        assert told, f"{seed}: nothing is told within {limit:.0f} s"
        assert {*sum(told, [])} <= {*history.stopped}, seed
        found = status(history.state, 0.0, 0.0).instances
        assert [i.instance for i in found if i.no_step_since] == [*history.stopped], seed
