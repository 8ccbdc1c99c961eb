"""The loop between a pretended master and the real policy."""

from __future__ import annotations

import dataclasses
import itertools
import json
import queue
import re

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.pretend_master import EXIT_0, PretendMaster
from tests.coordinator.world import NEVER, job
from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Beat, Cluster, ExitReport, Member
from tfapp.contract.names import (
    KEY_EXEC,
    KEY_FEED,
    KEY_LEAVES,
    KEY_LOST,
    KEY_SAVED,
    KEY_SESSION,
    KEY_STATUS,
    KEY_STOP,
)
from tfapp.contract.sessions import SessionRequest
from tfapp.contract.status import (
    SESSION,
    SUSPENDS,
    TAKEN_OVER,
    ApplicationStatus,
    Curve,
    FeedStatus,
    InstanceStatus,
    Moment,
    Verdict,
)
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.loop import Loop, StoreView, Terminated
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.state import new_state
from tfapp.errors import UnreachableError
from tfapp.frozen import replace
from tfapp.protocol.watch import Deleted, Put

LIMITS = make_limits(settle=0.0)
EXIT_3 = Exit(3, None, "exit", "exit code 3")
ANSWER = Answer(1, "worker/0", "h", "worker_0", {"worker": {"host_port": "h:1"}}, {"p": 1}, 7)
BEAT = Beat(1, 2, "running")
REPORT = ExitReport(
    1, "worker/0", "worker_0", "h", Exit(3, None, "exit", "exit code 3"), False, "the end", 2.5
)
WRITTEN = {
    "tfapp.report.answer.worker/0": (ANSWER, events.Answered(9.0, ANSWER)),
    "tfapp.report.beat.worker/0": (BEAT, events.Beaten(9.0, "worker/0", BEAT)),
    "tfapp.report.exit.worker/0": (REPORT, events.Exited(9.0, REPORT)),
    "tfapp.report.waits.worker/0": (
        {"container": "worker_0", "text": "waiting for 1 GPU", "kind": "nodes"},
        events.Waits(9.0, "worker/0", "worker_0", "waiting for 1 GPU", "nodes"),
    ),
    KEY_FEED: (FeedStatus(rows=3), events.Fed(9.0, FeedStatus(rows=3))),
    KEY_STOP: ({"message": "enough"}, events.StopRequested(9.0, "enough")),
    KEY_LEAVES: ([1700000000.0, True], events.MasterLeaves(9.0, saves=True)),
}


class Ticking:
    """A clock that goes on by itself: no test waits for an interval."""

    def __init__(self):
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.05
        return self.time


def loop(master: PretendMaster, layout: str) -> tuple[Loop, queue.SimpleQueue, list[str]]:
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    said: list[str] = []
    failure = make_failure_policy(max_restarts=1) if master.dead_on_arrival else NEVER
    chosen = job(layout, limits=LIMITS, failure=failure)
    master.begin(new_state(chosen).instances)
    made = Loop(chosen, master, inbox, Ticking(), lambda: 1700000000.0, said.append)  # type: ignore[arg-type]
    return made, inbox, said


def run(master: PretendMaster, layout: str) -> ApplicationStatus:
    return loop(master, layout)[0].run()


def untimed(text: str) -> str:
    return re.sub(r"after [\d.]+ s", "after N s", text)


def test_an_application_from_start_to_end():
    master = PretendMaster({"chief/0": EXIT_0})
    status = run(master, "chief=1 ps=1")
    assert status == ApplicationStatus(
        name="j",
        state="SUCCEEDED",
        generation=1,
        started=1700000000.0,
        updated=status.updated,
        checkpoint_dir="/checkpoints/j",
        ran=job("chief=1 ps=1").ran,
        instances=(
            InstanceStatus(
                instance="chief/0",
                component="chief",
                role="chief",
                state="SUCCEEDED",
                container="chief_0",
                host="127.0.0.1",
                exports={"g": {"n": "chief/0"}},
                exit=EXIT_0,
                seconds=1.0,
            ),
            InstanceStatus(
                instance="ps/0",
                component="ps",
                role="ps",
                state="STOPPED",
                container="ps_0",
                host="127.0.0.1",
                exports={"g": {"n": "ps/0"}},
                exit=Exit(None, 15, "signal", "killed by SIGTERM (15)"),
                seconds=1.0,
            ),
        ),
        verdict=Verdict("SUCCEEDED", 0, status.verdict.summary, None),
        timeline=status.timeline,
    )
    assert 0 < status.updated - status.started < 10  # of the loop's clock; the calendar stands
    assert [untimed(moment.text) for moment in status.timeline] == [
        "generation 1 starts, 2 instances",
        "Succeeded: chief/0 ended with exit code 0 after N s.",
    ]
    assert untimed(status.verdict.summary) == untimed(status.timeline[-1].text)
    published = ApplicationStatus.from_dict(json.loads(master.store[KEY_STATUS][0]))
    assert replace(published, updated=status.updated) == status


def test_a_run_goes_on_after_a_suspension():
    """With the number of instances, the charges and the history that it had."""
    began = 1700000000.0 - 500
    earlier = ApplicationStatus(
        name="j",
        state="ACCEPTED",
        generation=4,
        started=began,
        updated=began + 100,
        instances=tuple(
            InstanceStatus(f"worker/{n}", "worker", "worker", "REQUESTED", step=9) for n in (0, 1)
        ),
        restarts=2,
        losses=1,
        timeline=(Moment(began + 100, "the application is suspended", SUSPENDS, "", 4),),
        joined={"worker/1": 3},
        curves=(Curve("worker/0", "loss", ((3.0, 1, 0.5),)),),
    )
    master = PretendMaster({"worker/0": EXIT_0, "worker/1": EXIT_0})
    master.generation = 5
    master.store[KEY_STATUS] = (json.dumps(dataclasses.asdict(earlier)).encode(), None)
    # The master's services begin with as many as there were.
    made, _, said = loop(master, "worker=2")
    made._state = new_state(job("worker=3"))
    status = made.run()
    assert (status.state, status.generation, status.started) == ("SUCCEEDED", 5, began)
    assert (status.restarts, status.losses, status.joined) == (2, 1, {"worker/1": 3})
    assert [i.instance for i in status.instances] == ["worker/0", "worker/1"]
    assert status.curves == earlier.curves
    moments = [(moment.time - began, moment.text) for moment in status.timeline]
    assert moments[:2] == [
        (100.0, "the application is suspended"),
        (pytest.approx(500.0, abs=1), "generation 5 begins"),
    ]
    assert moments[2][1] == "generation 5 starts, 2 instances"
    assert any("worker/0: SUCCEEDED" in line for line in said)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_a_second_master_says_whether_the_first_was_lost(lost, left):
    """That is charged, also where the first one has left no status. Else it was a suspension."""
    began = 1700000000.0 - 500
    instances = (InstanceStatus("worker/0", "worker", "worker", "RUNNING"),)
    earlier = ApplicationStatus("j", "RUNNING", 4, began, began, instances, restarts=1, losses=1)
    master = PretendMaster({"worker/0": EXIT_0})
    master.generation = 5 if left else 2 if lost else 1
    if left:
        master.store[KEY_STATUS] = (encode(earlier), None)
    if lost:
        master.store[KEY_LOST] = (b"", None)
    made, _, _ = loop(master, "worker=1")
    failure = make_failure_policy(max_losses=9)
    made._state = new_state(job("worker=1", limits=LIMITS, failure=failure))
    made._number = 2
    status = made.run()
    assert (status.state, status.generation) == ("SUCCEEDED", master.generation)
    assert (status.restarts, status.losses) == (int(left), int(left) + int(lost))
    told = "the application's master was lost and is back"
    assert (told in [moment.text for moment in status.timeline]) == lost


def test_a_web_address_among_the_exports_becomes_a_page():
    master = PretendMaster({"worker/0": EXIT_0})
    master.react = lambda key, value: None  # type: ignore[method-assign]
    executor = Executor(master, Ticking(), lambda _: None)  # type: ignore[arg-type]

    def publish(generation: int, *addresses: str) -> list[str]:
        del master.calls[:]
        members = tuple(
            Member(f"t/{i}", "t", i, "other", "h", {"g": {"url": a, "port": "6006"}}, f"t_{i}")
            for i, a in enumerate(addresses)
        )
        action = actions.PublishCluster(Cluster(generation, members, ()))
        assert list(executor.carry_out([action])) == []
        return master.calls

    assert publish(1, "http://h:1", "h:2") == [
        "put tfapp.control.cluster",
        "add_page t-0 http://h:1 t/0",
    ]
    assert publish(2, "http://h:1", "h:2") == ["put tfapp.control.cluster"]
    assert publish(3, "http://h:3") == [
        "put tfapp.control.cluster",
        "remove_page t-0",
        "add_page t-0 http://h:3 t/0",
    ]


def test_it_calls_the_master_no_more_than_needed():
    master = PretendMaster({"chief/0": EXIT_0})
    run(master, "chief=1 ps=1")
    seen = [call for call in master.calls if KEY_STATUS not in call and "progress" not in call]
    assert seen == [
        "watch tfapp.report.",
        "read",
        "update tfapp.control.generation tfapp.report.alive.chief/0 tfapp.report.alive.ps/0",
        "put tfapp.control.cluster",
        "update tfapp.order.chief/0",
        "update tfapp.order.ps/0",
        "update tfapp.order.ps/0",
    ]


@pytest.mark.parametrize(
    ("prepare", "summary"),
    [
        (
            lambda m: (m.dead_on_arrival.add("worker/1"), m.refused.add("worker/1")),
            "Failed: worker/1 could not be started in generation 1: its container was refused: "
            "too big. It was restarted once before.",
        ),
        (
            lambda m: m.dead_on_arrival.add("worker/1"),
            "Succeeded: all 2 instances of worker ended with exit code 0 after N s. "
            "It was restarted once before.",
        ),
        (
            lambda m: (m.dead_on_arrival.add("worker/1"), m.answer_lost.add("worker/1")),
            "Succeeded: all 2 instances of worker ended with exit code 0 after N s. "
            "It was restarted once before.",
        ),
        (
            lambda m: setattr(m, "exits", {"worker/0": EXIT_0, "worker/1": EXIT_3}),
            "Failed: worker/1 on 127.0.0.1 ended with exit code 3 in generation 1, "
            "1 s after its start.",
        ),
    ],
    ids=["refused", "dead on arrival", "answer lost", "failed"],
)
def test_troubles(prepare, summary):
    master = PretendMaster({"worker/0": EXIT_0, "worker/1": EXIT_0})
    prepare(master)
    status = run(master, "worker=2")
    assert status.verdict is not None
    assert untimed(status.verdict.summary) == summary
    added = [call for call in master.calls if call.startswith("add_container")]
    assert added == [f"add_container {name}" for name in master.dead_on_arrival]


def test_a_transport_that_fails_again_and_again_is_no_bug():
    master = PretendMaster({"worker/0": EXIT_0, "worker/1": EXIT_0})
    master.dead_on_arrival.add("worker/1")
    master.failing_adds = 3
    status = run(master, "worker=2")
    assert status.state == "SUCCEEDED"
    assert master.calls.count("add_container worker/1") == 4


def test_a_report_from_before_the_coordinator_is_heard():
    master = PretendMaster({"worker/0": EXIT_0})
    made, _, _ = loop(master, "worker=2")
    refusal = Exit(None, None, "script", "no such module")
    master.report("worker/1", refusal, False)
    master.states["worker_1"] = "FAILED"
    verdict = made.run().verdict
    assert verdict is not None
    assert verdict.cause is not None
    assert (verdict.cause.instance, verdict.cause.exit) == ("worker/1", refusal)


def test_what_happened_while_the_stream_was_broken_is_not_missed():
    master = PretendMaster({})
    made, _, said = loop(master, "worker=2")

    def on_call(call: str) -> None:
        if call == "put tfapp.control.cluster":
            master.break_streams()
            master.exits = {"worker/0": EXIT_0, "worker/1": EXIT_0}

    master.on_call = on_call
    assert made.run().state == "SUCCEEDED"
    assert "the stream of reports broke: cut; opening it again" in said


def test_a_container_that_ended_while_the_stream_was_broken_is_lost():
    master = PretendMaster({"worker/0": EXIT_0})

    def on_call(call: str) -> None:
        if call == "put tfapp.control.cluster":
            master.break_streams()
            master.end(master.container("worker/1"))

    master.on_call = on_call
    status = run(master, "worker=2")
    assert status.verdict is not None
    assert status.verdict.cause is not None
    assert status.verdict.cause.instance == "worker/1"


def test_a_client_stops_it():
    master = PretendMaster({})

    def on_call(call: str) -> None:
        if call == "put tfapp.control.cluster":
            master.write(KEY_STOP, encode({"message": "by Ann"}), None)

    master.on_call = on_call
    status = run(master, "worker=2")
    assert (status.state, status.verdict and status.verdict.summary) == (
        "KILLED",
        "Killed: by Ann.",
    )
    assert [i.state for i in status.instances] == ["KILLED", "KILLED"]


def test_a_session_is_in_the_timeline_before_its_runner_knows_of_it():
    master = PretendMaster({})
    known = []

    def on_call(call: str) -> None:
        if call == "put tfapp.control.cluster":
            master.write(KEY_EXEC, encode(SessionRequest("1", "worker/0")), None)
        if call == f"put {KEY_SESSION}":
            status = ApplicationStatus.from_dict(json.loads(master.store[KEY_STATUS][0]))
            known.extend(moment.instance for moment in status.timeline if moment.kind == SESSION)
            master.write(KEY_STOP, encode({"message": "enough"}), None)

    master.on_call = on_call
    made, _, _ = loop(master, "worker=2")
    made._state = new_state(replace(made._state.job, owner="a certificate"))
    made.run()
    assert known == ["worker/0"]


def test_a_master_that_may_suspend_the_application_finds_its_newest_status():
    """It may end this process then."""
    master, published = PretendMaster({}), []

    def on_call(call):
        if call == "put tfapp.control.cluster":
            master.write(KEY_LEAVES, encode([1700000000.0, True]), None)
        if call == f"put {KEY_SAVED}":
            published.append(json.loads(master.store[KEY_STATUS][0])["state"])
            raise UnreachableError("it has ended")

    master.on_call = on_call
    with pytest.raises(UnreachableError):
        run(master, "worker=2")
    assert published == ["RUNNING"]


def test_its_own_process_stops_it():
    made, inbox, _ = loop(PretendMaster({}), "worker=2")
    inbox.put(Terminated("its coordinator was ended"))
    status = made.run()
    assert status.verdict is not None
    assert status.verdict.summary == "Killed: its coordinator was ended."


def test_a_master_that_has_gone_is_not_waited_for():
    master = PretendMaster({})
    master.unreachable = True
    with pytest.raises(UnreachableError):
        run(master, "worker=1")


def test_a_bug_is_a_failure_that_says_so():
    made, _, _ = loop(PretendMaster({}), "worker=1")
    status = made.broken(ValueError("no such thing"))
    assert status.verdict is not None
    assert (status.state, status.verdict.exit_code) == ("FAILED", 50)
    assert status.verdict.summary == (
        "Failed: a bug in tfapp ended the coordinator: ValueError: no such thing. Please report "
        "it with the coordinator's log, which has the details."
    )


def test_a_bug_does_not_change_a_verdict():
    made, _, _ = loop(PretendMaster({"worker/0": EXIT_0}), "worker=1")
    assert made.run().state == made.broken(ValueError("late")).state == "SUCCEEDED"


def test_the_log_tells_the_story():
    made, _, said = loop(PretendMaster({"worker/0": EXIT_3}), "worker=1")
    made.run()
    assert said == [
        "generation 1: RUNNING",
        "worker/0: WAITING",
        "generation 1 starts, 1 instance",
        "worker/0: FAILED (exit code 3)",
        "generation 1: FINISHED",
        "Failed: worker/0 on 127.0.0.1 ended with exit code 3 in generation 1, "
        "1 s after its start.",
    ]


@pytest.mark.parametrize("key", WRITTEN)
def test_a_value_is_an_event_once(key):
    value, event = WRITTEN[key]
    view = StoreView()
    assert list(view.apply(Put(key, encode(value)), 9.0)) == [event]
    assert list(view.apply(Put(key, encode(value)), 10.0)) == []
    assert list(view.reconcile({key: encode(value)}, 10.0)) == []


def test_the_end_of_a_container_is_an_event_and_other_deletions_are_not():
    view = StoreView()
    alive = "tfapp.report.alive.worker/0"
    assert list(view.apply(Put(alive, b"worker_0"), 1.0)) == []
    assert list(view.apply(Deleted("tfapp.report.beat.worker/0"), 2.0)) == []
    assert list(view.apply(Deleted(alive), 3.0)) == [
        events.ContainerEnded(3.0, "worker/0", "worker_0")
    ]


def test_reading_again_tells_reports_first_and_ends_last():
    view = StoreView()
    list(view.apply(Put("tfapp.report.alive.worker/0", b"worker_0"), 1.0))
    list(view.apply(Put("tfapp.report.alive.worker/1", b"worker_1"), 1.0))
    now = {
        "tfapp.report.alive.worker/1": b"worker_1",
        "tfapp.report.beat.worker/1": encode(BEAT),
        "tfapp.report.exit.worker/0": encode(REPORT),
    }
    assert list(view.reconcile(now, 5.0)) == [
        events.Exited(5.0, REPORT),
        events.Beaten(5.0, "worker/1", BEAT),
        events.ContainerEnded(5.0, "worker/0", "worker_0"),
    ]


def test_a_key_of_nobody_is_no_event():
    assert list(StoreView().apply(Put("tfapp.report.unheard-of.x", b"1"), 1.0)) == []


class Killed(BaseException):
    """The coordinator is killed."""


def until(
    master: PretendMaster, clock: Ticking, chosen, last: int | None
) -> ApplicationStatus | None:
    """Runs a coordinator that is killed before its call `last` of the master; then it is None."""
    left = iter(range(last)) if last is not None else itertools.repeat(0)

    def on_call(call: str) -> None:
        if next(left, None) is None:
            raise Killed

    master.on_call = on_call
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    made = Loop(
        chosen,
        master,  # type: ignore[arg-type]
        inbox,
        clock,
        lambda: 1700000000.0,
        lambda text: None,
        followed=True,
    )
    try:
        return made.run()
    except Killed:
        master.streams.clear()
        return None


def lost_at(last: int | None, dead: frozenset[str], moves=lambda clock: None):
    """What has become of an application whose coordinator is killed before this call. `moves` may
    change the clock of the next one."""
    master, clock = PretendMaster({"chief/0": EXIT_0}), Ticking()
    master.dead_on_arrival = set(dead)
    failure = make_failure_policy(max_restarts=1)
    chosen = job("chief=1 ps=1", limits=LIMITS, failure=failure)
    master.begin(new_state(chosen).instances)
    status = until(master, clock, chosen, last)
    killed = status is None
    if status is None:
        moves(clock)
        status = until(master, clock, chosen, None)
    assert status is not None
    told = [untimed(m.text) for m in status.timeline if m.kind != TAKEN_OVER]
    instances = [(i.instance, i.state, i.container) for i in status.instances]
    charges = (status.generation, status.restarts, status.losses)
    return killed, (status.state, charges, instances, told, sorted(master.states))


@pytest.mark.parametrize("dead", [frozenset(), frozenset({"chief/0"})])
def test_another_coordinator_goes_on_after_a_death_before_each_call_of_the_master(
    dead, monkeypatch
):
    """Nothing is done twice, and no container is requested twice."""
    monkeypatch.setattr("tfapp.coordinator.loop.TICK", 0.001)  # the clock goes on by itself
    _, whole = lost_at(None, dead)
    assert whole[0] == "SUCCEEDED"
    killed, number = True, 0
    while killed:
        killed, found = lost_at(number, dead)
        assert found == whole, number
        number += 1
    assert number > 10


@pytest.mark.parametrize("ahead", [1e6, -1e6])
def test_another_coordinator_goes_on_on_another_machine(monkeypatch, ahead):
    """Whose clock is another one: no time has passed for it."""
    monkeypatch.setattr("tfapp.coordinator.loop.TICK", 0.001)
    _, whole = lost_at(None, frozenset())
    for number in range(5, 40, 5):
        machine = ["a"]
        monkeypatch.setattr("tfapp.coordinator.loop._boot", lambda machine=machine: machine[0])

        def moves(clock, machine=machine):
            machine[0] = "b"
            clock.time += ahead

        assert lost_at(number, frozenset(), moves)[1] == whole, number
