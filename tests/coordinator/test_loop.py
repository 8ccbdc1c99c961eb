"""The loop between a pretended master and the real policy."""

from __future__ import annotations

import json
import queue

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.pretend_master import EXIT_0, PretendMaster
from tests.coordinator.world import NEVER, job
from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Cluster, Member
from tfapp.contract.names import KEY_STATUS, KEY_STOP
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.loop import Loop, Terminated
from tfapp.coordinator.policy import actions
from tfapp.coordinator.policy.state import new_state
from tfapp.errors import UnreachableError

LIMITS = make_limits(settle=0.0)
EXIT_3 = Exit(3, None, "exit", "exit code 3")


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


def test_an_application_from_start_to_end():
    master = PretendMaster({"chief/0": EXIT_0})
    status = run(master, "chief=1 ps=1")
    assert status == ApplicationStatus(
        name="j",
        state="SUCCEEDED",
        generation=1,
        started=1700000000.0,
        updated=1700000000.0,
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
        verdict=Verdict(
            "SUCCEEDED", 0, "Succeeded: chief/0 ended with exit code 0 after 1 s.", None
        ),
        timeline=status.timeline,
    )
    assert [moment.text for moment in status.timeline] == [
        "generation 1 starts, 2 instances",
        "Succeeded: chief/0 ended with exit code 0 after 1 s.",
    ]
    published = json.loads(master.store[KEY_STATUS][0])
    assert ApplicationStatus.from_dict(published) == status


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
            "Succeeded: all 2 instances of worker ended with exit code 0 after 1 s. "
            "It was restarted once before.",
        ),
        (
            lambda m: (m.dead_on_arrival.add("worker/1"), m.answer_lost.add("worker/1")),
            "Succeeded: all 2 instances of worker ended with exit code 0 after 1 s. "
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
    assert status.verdict.summary == summary
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
