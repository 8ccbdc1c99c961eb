"""The runner's decisions as histories: events and times in, actions out."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfapp.contract.exit import Exit
from tfapp.contract.messages import Cluster, Member, Order
from tfapp.runner import policy
from tfapp.runner.events import (
    Attempt,
    Choose,
    Chosen,
    ClusterFormed,
    ComponentsReleased,
    Ended,
    Failed,
    GenerationSeen,
    Hangs,
    Kill,
    Launch,
    Leave,
    OrderGiven,
    Prepared,
    Reached,
    Register,
    Report,
    Restart,
    SaveAsked,
    StacksOver,
    Stop,
    Terminated,
    Tick,
    Unwell,
)
from tfapp.runner.policy import GANG_MARGIN, NEVER_RAN, RunnerState
from tfapp.script import Program

PROGRAM = Program(("python3", "train.py"))
DONE = Exit(0, None, "exit", "exit code 0")
BROKEN = Exit(3, None, "exit", "exit code 3")
KILLED = Exit(None, 9, "signal", "killed by SIGKILL (9)")
REFUSED = Exit(None, None, "start", "TensorFlow is not installed")
HANGS = Exit(None, None, "hang", "process 7 was stopped")
FIRST = Attempt(1)
GANG = 600.0
LEFT = "; still there after SIGKILL: process 7"


def left(exit: Exit) -> Exit:
    return dataclasses.replace(exit, text=exit.text + LEFT)


def formed(generation: int, held: tuple[str, ...] = ()) -> ClusterFormed:
    return ClusterFormed(Cluster(generation, (), held))


def ordered(action: str, generation: int = 1, grace: float = 30.0) -> OrderGiven:
    return OrderGiven(Order(generation, action, grace))


def again(generation: int, attempt: int) -> OrderGiven:
    return OrderGiven(Order(generation, "restart", attempt=attempt))


def play(*history, start: float = 0.0) -> tuple[RunnerState, list]:
    """`history`: events, each at the time of the number before it."""
    state, now, done = RunnerState("worker", GANG, requested=1), start, []
    for item in history:
        if isinstance(item, (int, float)):
            now = float(item)
        else:
            state, actions = policy.step(state, item, now)
            done += actions
    return state, done


READY = (Prepared(), GenerationSeen(1))
RUNNING = (*READY, formed(1), Chosen(PROGRAM))
STARTED = [Register(1), Choose(Cluster(1, ())), Launch(PROGRAM)]


@pytest.mark.parametrize(
    ("history", "actions", "phase"),
    [
        pytest.param((GenerationSeen(1),), [], policy.PREPARING, id="prepares before it answers"),
        pytest.param((GenerationSeen(1), Prepared()), [Register(1)], policy.WAITING, id="answers"),
        pytest.param((Prepared(),), [], policy.WAITING, id="waits for a generation"),
        pytest.param(READY, [Register(1)], policy.WAITING, id="answers when there is one"),
        pytest.param((*READY, GenerationSeen(1)), [Register(1)], policy.WAITING, id="answers once"),
        pytest.param(RUNNING, STARTED, policy.RUNNING, id="starts"),
        pytest.param(
            (*RUNNING, Ended(DONE), ordered("exit")),
            [*STARTED, Report(1, DONE, False), Leave()],
            policy.DONE,
            id="reports and leaves",
        ),
        pytest.param(
            (Prepared(REFUSED),),
            [Report(1, REFUSED, False)],
            policy.REPORTED,
            id="reports a refusal before any generation",
        ),
        pytest.param(
            (*READY, formed(2)), [Register(1)], policy.WAITING, id="ignores another cluster"
        ),
        pytest.param(
            (*READY, Failed(REFUSED)),
            [Register(1), Report(1, REFUSED, False)],
            policy.REPORTED,
            id="reports that it has no port",
        ),
        pytest.param(
            (*READY, formed(1), Failed(REFUSED)),
            [*STARTED[:2], Report(1, REFUSED, False)],
            policy.REPORTED,
            id="reports that nothing can be started",
        ),
        pytest.param(
            (*READY, formed(1, ("worker",)), ComponentsReleased(1, ("ps",))),
            [Register(1)],
            policy.WAITING,
            id="is held back",
        ),
        pytest.param(
            (*READY, formed(1, ("worker",)), ComponentsReleased(1, ("worker",))),
            [Register(1), Choose(Cluster(1, (), ("worker",)))],
            policy.STARTING,
            id="is released",
        ),
        pytest.param(
            (*READY, ComponentsReleased(1, ("worker",)), formed(1, ("worker",))),
            [Register(1), Choose(Cluster(1, (), ("worker",)))],
            policy.STARTING,
            id="is released before it knows the cluster",
        ),
        pytest.param(
            (*READY, formed(1, ("ps",))),
            [Register(1), Choose(Cluster(1, (), ("ps",)))],
            policy.STARTING,
            id="others are held back",
        ),
        pytest.param(
            (*RUNNING, Unwell(FIRST, REFUSED), Ended(KILLED)),
            [*STARTED, Kill(), Report(1, REFUSED, False)],
            policy.REPORTED,
            id="ends a program that is not well",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), Hangs(FIRST, REFUSED), 104, Tick()),
            STARTED,
            policy.HANGING,
            id="spares a program that hangs for the stacks",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), StacksOver(), StacksOver(), Ended(KILLED, True)),
            [*STARTED, Kill(), Report(1, HANGS, False)],
            policy.REPORTED,
            id="ends a program that hangs when the stacks are told",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), StacksOver(), Ended(KILLED, True, LEFT)),
            [*STARTED, Kill(), Report(1, left(HANGS), False)],
            policy.REPORTED,
            id="a program that hangs cannot be killed",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), 105, Tick(), Tick(), Ended(KILLED, True)),
            [*STARTED, Kill(), Report(1, HANGS, False)],
            policy.REPORTED,
            id="ends a program that hangs when nobody wants stacks",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), Ended(DONE), StacksOver()),
            [*STARTED, Report(1, DONE, False)],
            policy.REPORTED,
            id="a program that ends meanwhile has not hung",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), Unwell(FIRST, REFUSED), Ended(KILLED, True)),
            [*STARTED, Kill(), Report(1, REFUSED, False)],
            policy.REPORTED,
            id="a program that is not well is not spared",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), ordered("stop"), StacksOver(), 130, Tick()),
            [*STARTED, Stop(), Kill()],
            policy.STOPPING,
            id="a program that hangs is stopped",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), GenerationSeen(2), StacksOver(), 105, Tick()),
            [*STARTED, Kill()],
            policy.REPLACED,
            id="a program that hangs makes room for the next generation",
        ),
        pytest.param(
            (*RUNNING, 100, Hangs(FIRST, HANGS), Terminated(3), StacksOver(), 105, Tick()),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="a program that hangs in a container that ends has its grace",
        ),
        pytest.param(
            (*RUNNING, Hangs(Attempt(0), HANGS), StacksOver()),
            STARTED,
            policy.RUNNING,
            id="a word on an earlier program's hang is late",
        ),
        pytest.param(
            (*RUNNING, Ended(DONE), Unwell(FIRST, REFUSED)),
            [*STARTED, Report(1, DONE, False)],
            policy.REPORTED,
            id="a program that has ended is neither well nor unwell",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 101, SaveAsked(), 159, Tick()),
            STARTED,
            policy.NOTICED,
            id="a program that saves has time for that before its container ends",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 101, SaveAsked(), 160, Tick()),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="a program that has not saved in time is asked to end",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), SaveAsked(), 103, SaveAsked(over=True)),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="a program that has saved is asked to end",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 105, Tick()),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="nobody asks to save: the coordinator is away, or ends",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 120, Reached(), 134, Tick()),
            STARTED,
            policy.NOTICED,
            id="another master has time to ask for that",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 120, Reached(), 135, Tick()),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="it does not ask",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), 150, Reached(), 160, Tick()),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="another master has no longer than the container",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), SaveAsked(), GenerationSeen(2)),
            [*STARTED, Stop()],
            policy.LEAVING,
            id="a newer generation waits for nobody to save",
        ),
        pytest.param(
            (*RUNNING, 100, Terminated(3, 60), SaveAsked(), Ended(DONE)),
            [*STARTED, Leave()],
            policy.DONE,
            id="a program ends before it has saved",
        ),
        pytest.param(
            (*RUNNING, Ended(DONE), GenerationSeen(2), formed(2), Chosen(PROGRAM))
            + (Unwell(FIRST, REFUSED),),
            [
                *STARTED,
                Report(1, DONE, False),
                Register(2),
                Choose(Cluster(2, ())),
                Launch(PROGRAM),
            ],
            policy.RUNNING,
            id="a word on an earlier generation's program is late",
        ),
        pytest.param(
            (*RUNNING, Ended(DONE), again(1, 1), Chosen(PROGRAM), Unwell(FIRST, REFUSED)),
            [*STARTED, Report(1, DONE, False), Restart(), Choose(Cluster(1, ()))]
            + [Launch(PROGRAM)],
            policy.RUNNING,
            id="a word on an earlier attempt's program is late",
        ),
    ],
)
def test_one_generation(history, actions, phase):
    state, done = play(*history)
    assert (done, state.phase) == (actions, phase)


@pytest.mark.parametrize(
    ("history", "actions"),
    [
        pytest.param(
            (*RUNNING, 100, ordered("stop"), 120, Tick(), Ended(DONE)),
            [*STARTED, Stop(), Report(1, DONE, True)],
            id="stops in time",
        ),
        pytest.param(
            (*RUNNING, 100, ordered("stop"), 130, Tick(), Tick(), Ended(KILLED)),
            [*STARTED, Stop(), Kill(), Report(1, KILLED, True)],
            id="is killed when the grace is over",
        ),
        pytest.param(
            (*RUNNING, 100, ordered("stop"), 130, Tick(), Ended(KILLED, True, LEFT)),
            [*STARTED, Stop(), Kill(), Report(1, left(KILLED), True)],
            id="cannot be killed",
        ),
        pytest.param(
            (*RUNNING, ordered("stop", grace=0)), [*STARTED, Kill()], id="is killed without grace"
        ),
        pytest.param(
            (*RUNNING, ordered("stop"), ordered("stop")), [*STARTED, Stop()], id="stops once"
        ),
        pytest.param(
            (ordered("stop"),), [Report(1, NEVER_RAN, True)], id="stops while it prepares"
        ),
        pytest.param(
            (*READY, ordered("stop")),
            [Register(1), Report(1, NEVER_RAN, True)],
            id="stops while it waits",
        ),
        pytest.param(
            (*READY, formed(1), ordered("stop"), Chosen(PROGRAM)),
            [*STARTED[:2], Report(1, NEVER_RAN, True)],
            id="stops while it starts",
        ),
        pytest.param(
            (*RUNNING, Ended(BROKEN), ordered("stop"), ordered("exit")),
            [*STARTED, Report(1, BROKEN, False), Leave()],
            id="has nothing left to stop",
        ),
        pytest.param(
            (*READY, GenerationSeen(2), ordered("stop", 1)),
            [Register(1), Register(2)],
            id="ignores an order for an older generation",
        ),
    ],
)
def test_orders(history, actions):
    assert play(*history)[1] == actions


@pytest.mark.parametrize(
    ("history", "actions"),
    [
        pytest.param((*READY, GenerationSeen(2)), [Register(1), Register(2)], id="while it waits"),
        pytest.param(
            (*READY, formed(1), GenerationSeen(2), Chosen(PROGRAM)),
            [*STARTED[:2], Register(2)],
            id="while it starts",
        ),
        pytest.param(
            (*RUNNING, GenerationSeen(2), Ended(KILLED, True), formed(2), Chosen(PROGRAM)),
            [*STARTED, Kill(), Register(2), Choose(Cluster(2, ())), Launch(PROGRAM)],
            id="while it runs: not before the program is dead",
        ),
        pytest.param(
            (*RUNNING, ordered("stop"), GenerationSeen(2), Ended(KILLED), formed(2)),
            [*STARTED, Stop(), Kill(), Register(2), Choose(Cluster(2, ()))],
            id="while it stops",
        ),
        pytest.param(
            (*RUNNING, GenerationSeen(2), Ended(KILLED), formed(2)),
            [*STARTED, Kill(), Report(1, KILLED, False), Register(2), Choose(Cluster(2, ()))],
            id="after its program has ended by itself",
        ),
        pytest.param(
            (*RUNNING, Unwell(FIRST, HANGS), GenerationSeen(2), Ended(KILLED, True)),
            [*STARTED, Kill(), Kill(), Report(1, HANGS, False), Register(2)],
            id="while its hanging program is killed",
        ),
        pytest.param(
            (*RUNNING, Ended(BROKEN), GenerationSeen(2), Tick()),
            [*STARTED, Report(1, BROKEN, False), Register(2)],
            id="after it has reported",
        ),
        pytest.param(
            (*RUNNING, GenerationSeen(2), ordered("stop", 2), Ended(KILLED, True)),
            [*STARTED, Kill(), Report(2, NEVER_RAN, True)],
            id="that is stopped at once",
        ),
        pytest.param(
            (*RUNNING, GenerationSeen(2), GenerationSeen(3), Ended(KILLED, True)),
            [*STARTED, Kill(), Register(3)],
            id="overtaken by the next",
        ),
        pytest.param(
            (GenerationSeen(2), Prepared(REFUSED)),
            [Report(2, REFUSED, False)],
            id="that is refused",
        ),
    ],
)
def test_a_new_generation(history, actions):
    assert play(*history)[1] == actions


@pytest.mark.parametrize(
    ("history", "actions", "phase"),
    [
        ((*READY, Terminated()), [Register(1), Leave()], policy.DONE),
        ((*RUNNING, Ended(DONE), Terminated()), [Report(1, DONE, False), Leave()], policy.DONE),
        ((*RUNNING, Terminated(), Ended(DONE)), [Stop(), Leave()], policy.DONE),
        ((*RUNNING, Terminated(), Terminated(), Tick()), [Stop()], policy.LEAVING),
        ((*RUNNING, Terminated(), GenerationSeen(2)), [Stop()], policy.LEAVING),
        ((*RUNNING, Terminated(), ordered("stop", grace=0.0)), [Stop()], policy.LEAVING),
        ((*RUNNING, ordered("stop"), Terminated(), Ended(DONE)), [Stop(), Leave()], policy.DONE),
        (
            (*RUNNING, GenerationSeen(2), Terminated(), Ended(KILLED)),
            [Kill(), Leave()],
            policy.DONE,
        ),
    ],
)
def test_a_container_that_is_asked_to_end(history, actions, phase):
    """Nobody but the engine cuts the grace, and no report blames the program."""
    state, done = play(*history)
    assert done[-len(actions) :] == actions and len(done) <= len(STARTED) + len(actions)
    assert state.phase == phase


def test_a_cluster_that_never_forms_is_given_up():
    late = GANG + GANG_MARGIN
    exit = Exit(None, None, "deadline", "no cluster was formed within 660 s of its answer")
    assert play(*READY, late - 1, Tick())[1] == [Register(1)]
    assert play(*READY, late, Tick())[1] == [Register(1), Report(1, exit, False)]


def test_a_coordinator_that_never_comes_is_given_up():
    late = GANG + GANG_MARGIN
    exit = Exit(None, None, "deadline", "no coordinator was heard of for 660 s")
    assert play(Prepared(), late - 1, Tick())[1] == []
    assert play(Prepared(), late, Tick())[1] == [Report(1, exit, False)]


def test_who_is_held_back_waits_as_long_as_it_takes():
    state, done = play(*READY, formed(1, ("worker",)), 1e9, Tick())
    assert (done, state.deadline) == ([Register(1)], None)


def test_who_has_reported_waits_for_what_the_coordinator_makes_of_it():
    state, done = play(*RUNNING, 100, Ended(DONE), 1e9, Tick())
    assert (done[-1], state.deadline) == (Report(1, DONE, False), None)


def test_a_program_starts_again_with_the_same_cluster():
    once_more = again(1, 1)
    state, done = play(
        *RUNNING, Ended(BROKEN), once_more, once_more, Chosen(PROGRAM), Ended(DONE), once_more
    )
    assert done[len(STARTED) :] == [
        Report(1, BROKEN, False),
        Restart(),
        Choose(Cluster(1, ())),
        Launch(PROGRAM),
        Report(1, DONE, False, attempt=1),
    ]
    assert state.phase == policy.REPORTED


def test_nothing_starts_again_in_another_generation():
    once_more = again(1, 1)
    state, done = play(*RUNNING, Ended(BROKEN), GenerationSeen(2), once_more)
    assert (done[-1], state.phase) == (Register(2), policy.WAITING)


def test_a_refused_instance_never_starts_whatever_is_ordered():
    state, done = play(Prepared(REFUSED), formed(1, ()), again(1, 1))
    assert (done, state.phase) == ([Report(1, REFUSED, False)], policy.REPORTED)


def member(instance: str, container: str) -> Member:
    return Member(instance, "worker", 0, "worker", "h", {}, container)


@pytest.mark.parametrize(
    ("members", "phase"),
    [
        ((member("worker/0", "worker_0"),), policy.STARTING),
        ((member("worker/0", ""),), policy.STARTING),
        ((member("worker/0", "worker_7"),), policy.WAITING),
        ((member("worker/1", "worker_0"),), policy.WAITING),
    ],
    ids=["itself", "itself, whatever its container", "its replacement", "only others"],
)
def test_a_runner_starts_only_in_a_cluster_of_its_own(members, phase):
    state = RunnerState("worker", GANG, 1, "worker/0", "worker_0")
    for event in (*READY, ClusterFormed(Cluster(1, members))):
        state, _ = policy.step(state, event, 0.0)
    assert state.phase == phase


def test_an_order_for_an_earlier_container_is_none():
    state = RunnerState("worker", GANG, requested=3)
    state, done = policy.step(state, ordered("stop", generation=2), 0.0)
    assert (state.phase, done) == (policy.PREPARING, ())


EVENTS = st.one_of(
    st.sampled_from([Prepared(), Prepared(REFUSED), Tick(), Chosen(PROGRAM)]),
    st.sampled_from([Failed(REFUSED), Ended(DONE), Ended(KILLED, True), Terminated()]),
    st.builds(Unwell, st.builds(Attempt, st.integers(1, 4), st.integers(0, 3)), st.just(REFUSED)),
    st.integers(1, 4).map(GenerationSeen),
    st.builds(formed, st.integers(1, 4), st.sampled_from([(), ("worker",)])),
    st.builds(ComponentsReleased, st.integers(1, 4), st.just(("worker",))),
    st.builds(ordered, st.sampled_from(["stop", "exit"]), st.integers(1, 4)),
    st.builds(again, st.integers(1, 4), st.integers(1, 3)),
)


class World:
    """The events that can happen to a runner: no program ends that does not run, and so on."""

    def __init__(self):
        self.programs = 0
        self.choosing = 0
        self.prepared = False
        self.answered: list[int] = []
        self.reports: list[tuple[int, int]] = []
        self.left = False
        self.terminated = False

    def can(self, event) -> bool:
        if isinstance(event, (Ended, Unwell)):
            return self.programs == 1
        if isinstance(event, Chosen):
            return self.choosing == 1
        if isinstance(event, Failed):
            return self.choosing == 1 and self.programs == 0
        return not (isinstance(event, Prepared) and self.prepared)

    def happens(self, event) -> None:
        self.prepared |= isinstance(event, Prepared)
        self.terminated |= isinstance(event, Terminated)
        self.programs -= isinstance(event, Ended)
        self.choosing -= isinstance(event, (Chosen, Failed))

    def does(self, action) -> None:
        assert not self.left, "nothing is done after leaving"
        if isinstance(action, Register):
            assert self.programs == 0, "an answer says that no older program lives"
            assert self.prepared
            assert action.generation > max(self.answered, default=0)
            self.answered.append(action.generation)
        elif isinstance(action, Choose):
            assert action.cluster.generation == self.answered[-1]
            self.choosing += 1
            assert self.choosing == 1
        elif isinstance(action, Launch):
            self.programs += 1
            assert self.programs == 1, "one program at a time"
        elif isinstance(action, (Stop, Kill)):
            assert self.programs == 1
            assert isinstance(action, Stop) or not self.terminated, "it has its whole grace"
        elif isinstance(action, Report):
            assert self.programs == 0, "a report says that the program is dead"
            assert (action.generation, action.attempt) not in self.reports
            self.reports.append((action.generation, action.attempt))
        elif isinstance(action, Leave):
            assert self.programs == 0 and (self.reports or self.terminated)
            self.left = True


@settings(max_examples=500)
@given(history=st.lists(st.tuples(st.floats(0, 400), EVENTS), max_size=60))
def test_no_history_breaks_the_promises(history):
    state, now, world = RunnerState("worker", GANG, requested=1), 0.0, World()
    for wait, event in history:
        if not world.can(event):
            continue
        now += wait
        world.happens(event)
        state, actions = policy.step(state, event, now)
        for action in actions:
            world.does(action)
    assert state.phase in policy.BEAT_STATES


def test_a_coordinator_that_announces_a_generation_again_is_waited_for():
    state, done = play(*READY, 500.0, GenerationSeen(1), 1100.0, Tick())
    assert (state.phase, state.deadline) == (policy.WAITING, 500.0 + GANG + GANG_MARGIN)
    assert done == [Register(1)]
