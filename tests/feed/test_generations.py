"""A feed lives through everything that an application can go through before it is over."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
from typing import Any

import pytest

import tfapp
from tests.feed import local_program
from tests.feed.world import Data, Later, Program, World, ids, wait_for
from tfapp.api.feeding import view_of
from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, FORMING, REQUESTED, RUNNING, STOPPING, SUCCEEDED, WAITING
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.gpus import hold
from tfapp.errors import FeedError
from tfapp.feed.driver.ledger import Ledger
from tfapp.feed.driver.state import BrokenFeed, FeedState, View
from tfapp.feed.task import asker

pytestmark = pytest.mark.usefixtures("without_spark")

BATCH = 10
ENOUGH = 300  # batches, more than there are


def instance(number: int, state: str = RUNNING, component: str = "worker") -> InstanceStatus:
    name = f"{component}/{number}"
    exports = {component: {"feed": f"h:{number}"}} if state in (RUNNING, SUCCEEDED) else {}
    exit = Exit(0, None, "", "") if state == SUCCEEDED else None
    return InstanceStatus(name, component, component, state, exports=exports, exit=exit)


def status(state: str, *instances: InstanceStatus, **more: Any) -> ApplicationStatus:
    return ApplicationStatus("app", state, 3, 0.0, 0.0, instances, **more)


ALL = {"worker/0": "h:0", "worker/1": "h:1"}


@pytest.mark.parametrize(
    ("told", "view"),
    [
        (status(RUNNING, instance(0), instance(1)), View(3, ALL)),
        (status(RUNNING, instance(0), instance(1), instance(0, component="ps")), View(3, ALL)),
        # One comes by flex, and takes part from the next generation on.
        (
            status(
                RUNNING, instance(0), instance(1), instance(2, REQUESTED), joined={"worker/2": 4}
            ),
            View(3, ALL),
        ),
        (
            status(RUNNING, instance(0), instance(1), instance(2, WAITING), joined={"worker/2": 3}),
            View(3, {}),
        ),
        (status(RUNNING, instance(0), instance(1, REQUESTED)), View(3, {})),
        (status(FORMING, instance(0), instance(1)), View(3, {}, running=False)),
        (status(STOPPING, instance(0), instance(1)), View(3, {}, running=False)),
        (
            status(RUNNING, instance(0, SUCCEEDED), instance(1)),
            View(3, ALL, done=frozenset({"worker/0"})),
        ),
        (
            status(SUCCEEDED, verdict=Verdict(SUCCEEDED, 0, "all well")),
            View(3, {}, "all well", True),
        ),
        (status(FAILED, verdict=Verdict(FAILED, 65, "it fails")), View(3, {}, "it fails", False)),
    ],
)
def test_the_view_of_a_status(told, view):
    assert view_of(told) == view


def looked(world: World, **more: Any) -> None:
    """The feed has seen this view of the application."""
    world.view = View(more.pop("generation", world.view.generation), {}, **more)
    wait_for(lambda: world.feeder._state.view is world.view)


def test_programs_that_run_are_fed_whatever_the_state_of_the_application(world, connected):
    """It is formed again, stops, or waits for instances: programs take rows until they end."""
    world.feeder._state.ledger._capacity = 800
    held = threading.Event()
    taken: list[list[int]] = [[], []]

    def take(program: Program, mine: list[int]) -> None:
        for batch in program.feed.batches(BATCH):
            mine += batch["id"].tolist()
            if len(mine) == 50:
                assert held.wait(120)

    taking = [Later(lambda p=p, m=m: take(p, m)) for p, m in zip(world.begin(), taken)]
    data = Data([1000, 1000], connected)
    feeding = Later(lambda: world.feeder.feed(data))
    wait_for(lambda: [len(each) for each in taken] == [50, 50])
    looked(world)
    held.set()
    wait_for(lambda: min(map(len, taken)) > 200)
    looked(world, running=False)
    looked(world, generation=2, running=False)
    assert feeding.result.rows == 2000
    assert [each.result for each in taking] == [None, None]
    assert sorted(taken[0] + taken[1]) == list(range(2000))
    assert data.failures == []


def test_a_generation_that_takes_long_to_form(world, connected, monkeypatch):
    monkeypatch.setattr("tfapp.feed.driver.state.BROKEN_LIMIT", 0.0)
    state = world.feeder._state
    looked(world, running=False)
    feeding = Later(lambda: world.feeder.feed(Data([40, 40], connected)))
    taking = [Later(lambda p=p: ids(p, taken=10)) for p in world.begin()]
    assert [len(each.result) for each in taking] == [10, 10]
    looked(world, running=False)
    for program in world.programs:
        program.end()
    wait_for(lambda: state.broken is not None)
    gone = state.broken.since
    wait_for(lambda: state.broken.since > gone)
    world.view = View(1, {}, running=False)
    taking = [Later(lambda p=program: ids(p)) for program in world.begin(3)]
    result = feeding.result
    assert (result.rows, result.lost) == (80 - result.dropped, 20)
    assert sum(len(each.result) for each in taking) == 60 - result.dropped


@pytest.mark.parametrize(
    ("view", "fails"),
    [
        (View(1, ALL), True),
        (View(1, {}), True),
        (View(1, {}, running=False), False),
        (View(2, {}), False),
        (View(2, {}, running=False), False),
    ],
)
def test_the_limits_count_while_the_programs_run_alone(view, fails):
    """That for a lost program, and that for a feed without progress."""
    for broken in (BrokenFeed(-1e9, "worker/0"), None):
        state = FeedState("app", Ledger(1 << 20), lambda note: None)
        state.fed = View(1, ALL)
        state.progress, state.broken = -1e9, broken
        state.look(view)
        with pytest.raises(FeedError) if fails else contextlib.nullcontext():
            state.check()


def test_a_program_that_is_gone_for_good(world, connected, monkeypatch):
    monkeypatch.setattr("tfapp.feed.driver.state.BROKEN_LIMIT", 0.0)
    first, other = world.begin()
    taking = [Later(lambda p=program: ids(p, taken=10)) for program in (first, other)]
    feeding = Later(lambda: world.feeder.feed(Data([4000], connected)))
    assert [len(each.result) for each in taking] == [10, 10]
    other.end()
    with pytest.raises(FeedError, match="connection to worker/1 has ended, and the application g"):
        assert feeding.result


def test_a_program_that_ends_well_before_the_others(world, connected):
    """They would wait for rows for ever, because all get as many. One that has had all may end."""
    first, other = world.begin()
    taking = Later(lambda: ids(first))
    assert_ended = Later(lambda: ids(other, taken=10))
    feeding = Later(lambda: world.feeder.feed(Data([4000], connected)))
    assert len(assert_ended.result) == 10
    other.end()
    world.view = world.view._replace(done=frozenset({"worker/1"}))
    with pytest.raises(FeedError, match=r"worker/1 has ended \(.* exit code 0\).*DataFeed.termina"):
        assert feeding.result
    with pytest.raises(FeedError, match="the feed has failed: the connection to worker/1"):
        assert taking.result


def test_an_application_that_succeeds_before_a_row_was_asked_for(world):
    world.begin()
    feeding = Later(lambda: world.feeder.feed(Data([40]), final=False))
    world.view = View(1, {}, "all well", True)
    assert feeding.result == (0, 0, 0, 0, True, 0)


def test_questions_are_answered_while_an_instance_is_waited_for(world):
    for program in world.begin():
        Later(lambda program=program: program.feed.serve(lambda found: found["id"] + 1))

    def asked() -> int:
        batches = Data([40]).batches(0)
        return sum(len(b) for b, _ in asker.ask(world.feeder.order(None), batches, 0, 0, None))

    assert asked() == 40
    looked(world)
    assert asked() == 40
    world.feeder.end()
    with pytest.raises(FeedError, match=r"nothing can be asked after end_feed\(\)"):
        world.feeder.order(None)


class Training:
    """A model of the ids that it has learned, with a checkpoint every few batches; its programs
    are as many as the application has."""

    def __init__(self, world: World, draw: random.Random):
        self.world, self.draw = world, draw
        self.base: list[int] = []  # what the model had learned at the beginning of the generation
        self.saved: tuple[int, ...] | None = None
        self.programs: list[Program] = []
        self.begin(draw.randint(1, 3))

    def begin(self, count: int) -> None:
        self.gate = threading.Semaphore(0)
        self.programs = self.world.begin(count)
        self.learned: list[list[int]] = [[] for _ in self.programs]
        self.learning = [
            Later(lambda p=p, mine=mine: self.learn(p, mine))
            for p, mine in zip(self.programs, self.learned)
        ]

    def learn(self, program: Program, mine: list[int]) -> None:
        if self.saved is not None:
            program.feed.restore(self.saved)
        for batch in program.feed.batches(BATCH, shuffle=self.world.shuffle):
            self.gate.acquire()
            mine += batch["id"].tolist()

    def checkpoint(self) -> list[int]:
        """Saves a position that all programs have reached, and returns the model there."""
        each = min(map(len, self.learned)) // BATCH // 3 * 3
        self.saved = self.programs[0].feed.state(each)
        return [one for mine in self.learned for one in mine[: each * BATCH]]

    def flex(self, count: int) -> None:
        """The application is formed again with so many programs."""
        view = self.world.view
        if self.draw.random() < 0.5:
            looked(self.world, running=self.draw.random() < 0.5)
            looked(self.world, generation=view.generation + 1, running=False)
        for program in self.programs:
            program.end()
        self.gate.release(ENOUGH)
        for each in self.learning:
            with pytest.raises(FeedError, match="the driver of the feed has gone"):
                assert each.result is None
        self.base += self.checkpoint()
        self.world.view = view
        self.begin(count)


@pytest.mark.parametrize("number", range(6))
def test_no_row_is_lost_or_doubled_when_the_number_of_programs_changes(world, connected, number):
    """Random histories: a checkpoint restores for another number of programs."""
    draw = random.Random(number)
    world.shuffle = draw.choice((0, 40))
    training = Training(world, draw)
    world.feeder._state.ledger._capacity = 1600
    data = Data([1200, 600, 0, 600], connected)
    feeding = Later(lambda: world.feeder.feed(data))
    for _ in range(draw.randint(1, 3)):
        more = draw.randint(1, 12)
        training.gate.release(more)
        wait_for(lambda t=training, n=more: sum(map(len, t.learned)) >= n * BATCH)
        training.flex(draw.randint(1, 4))
    training.gate.release(ENOUGH)
    result = feeding.result
    assert [each.result for each in training.learning] == [None] * len(training.programs)
    everything = training.base + [one for mine in training.learned for one in mine]
    assert len(everything) == len(set(everything)) == 2400 - result.dropped, (number, result)
    assert (result.rows, result.lost) == (2400 - result.dropped, 0)
    assert result.dropped < BATCH * len(training.programs)


def test_programs_that_restore_different_checkpoints_are_named(world, connected):
    programs = world.begin()
    taking = [Later(lambda p=p: ids(p, taken=20)) for p in programs]
    feeding = Later(lambda: world.feeder.feed(Data([80], connected)))
    assert [len(each.result) for each in taking] == [20, 20]
    states = [programs[0].feed.state(1), programs[1].feed.state(2)]
    for program in programs:
        program.end()
    again = world.begin(3)
    for program, state in zip(again, [*states, None]):
        if state:
            program.feed.restore(state)
    taking = [Later(lambda p=p: ids(p)) for p in again]
    result = feeding.result
    assert result.lost == 40
    assert sum(len(each.result) for each in taking) == 40 - result.dropped
    assert "worker/0 has restored the feed's state" in world.notes[0]


class FewRows(Data):
    """For the driver's own calls."""

    def getConf(self) -> dict[str, str]:
        return {}


@pytest.mark.slow
def test_flex_up_and_down_while_programs_are_fed(tfapp_home, tmp_path, connected):
    """On the local engine. Every row is in the model once, and the feed sees no failure."""
    program = functools.partial(local_program.train, folder=str(tmp_path))
    workers = {"worker": tfapp.Component("256 MiB", instances=2)}
    with tfapp.submit(program, workers, feed=True, name="fed", engine="local", show=False) as app:
        feeding = Later(lambda: app.feed(FewRows([1500, 0, 1500], connected), rest="share"))
        for generation, count in ((1, 2), (2, 3)):
            wait_for(
                lambda g=generation, n=count: len([*tmp_path.glob(f"{g:03}-000020*.json")]) == n
            )
            app.flex("worker", 5 - count)
        result = feeding.result
        models = [*app.result().returned.values()]
    assert len(models) == 2
    learned = models[0]["base"] + models[0]["ids"] + models[1]["ids"]
    assert sorted(learned) == list(range(3000))
    assert len(models[0]["base"]) == 10 * 20 * (2 + 3)
    assert (result.rows, result.dropped, result.lost) == (3000, 0, 0)


@pytest.mark.slow
def test_a_worker_that_is_late_joins_while_the_others_are_fed(
    tfapp_home, tmp_path, connected, monkeypatch
):
    """On the local engine, of whose three pretended GPUs another one uses one at first. Every row
    is in the model once, and the feed sees no failure."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    program = functools.partial(local_program.train, folder=str(tmp_path), last=2)
    fewer = {"yarn.component.instances.min": 2, "yarn.gpus": 1}
    workers = {"worker": tfapp.Component("256 MiB", instances=3, options=fewer)}
    soon = {"site.global.elastic.wait": "1 s", "site.global.elastic.interval": "1 s"}
    more = {"engine": "local", "options": soon, "show": False}
    home = Home(tfapp_home)
    home.prepare()
    with contextlib.ExitStack() as other:
        hold(home.gpus, ["1"], 1, other)
        with tfapp.submit(program, workers, feed=True, name="fed", **more) as app:
            feeding = Later(lambda: app.feed(FewRows([1500, 0, 1510], connected), rest="share"))
            wait_for(lambda: len([*tmp_path.glob("001-000020*.json")]) == 2)
            assert app.status().size == "2 of 3"
            other.close()
            result = feeding.result
            models = [*app.result().returned.values()]
    assert len(models) == 3
    learned = models[0]["base"] + [one for model in models for one in model["ids"]]
    assert sorted(learned) == list(range(3010))
    assert len(models[0]["base"]) == 10 * 20 * 2, "of the generation without the late one"
    assert (result.rows, result.dropped, result.lost) == (3010, 0, 0)
