"""The ends of logs, and what containers wait for, asked beside the loop."""

import json
import queue
import threading
import time
from types import SimpleNamespace

import pytest

from tests.contract_values import make_limits
from tests.coordinator.pretend_master import EXIT_0, PretendMaster
from tests.coordinator.world import NEVER, job
from tests.waiting import wait
from tfapp.contract.messages import Beat
from tfapp.contract.names import CANNOT_START, GRANTED, KEY_STATUS, NODES, QUEUE
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator import nodes
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.loop import Loop, Terminated
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.state import new_state
from tfapp.coordinator.policy.step import step
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.protocol.connection import ContainerReport

BEAT = Beat(1, 1, "waiting")


def ended(reason: str = "", message: str = "it failed") -> ContainerReport:
    return ContainerReport("w_1", "w", "FAILED", "h", message, "container_1", "n:8042", reason)


class Told:
    """An engine's module: `read` gives the ends of logs."""

    def __init__(self, read=lambda *_: ""):
        self.read_end = read

    def reason_of(self, message):
        return "node-lost" if "gone" in message else ""


@pytest.mark.parametrize(
    ("told", "reason", "message", "known"),
    [
        (Told(), "", "it failed", ""),
        (Told(), "", "it is gone", "node-lost"),
        (None, "", "it is gone", ""),
        (Told(), "memory", "it is gone", "memory"),
    ],
)
def test_the_masters_word_counts_before_the_engines(told, reason, message, known):
    master = SimpleNamespace(containers=lambda _: [ended(reason, message)], update=lambda _: None)
    executor = Executor(master, time.monotonic, lambda _: None, told)  # type: ignore[arg-type]
    (listed,) = executor.carry_out([actions.ListContainers()])
    assert isinstance(listed, events.Listed)
    assert listed.containers["w_1"].reason == known


@pytest.mark.parametrize(
    ("told", "reason", "can"),
    [(Told(), "", True), (Told(), "node-lost", False), (None, "", False)],
)
def test_which_logs_are_read(told, reason, can):
    assert nodes.NodeLogs(lambda _: None, told).can_tell(ended(reason)) is can


def test_a_job_names_the_module():
    from tfapp.engines.yarn import nodes as of_yarn

    assert nodes.load("") is None
    assert nodes.load(of_yarn.__name__) is of_yarn


class OnNodes(PretendMaster):
    """Its containers are on nodes that show logs, and those that ended say nothing of why."""

    def containers(self, states):
        return tuple(
            ContainerReport(
                c.id, c.service, c.state, c.host, "it failed", f"container_{c.id}", "n:8042"
            )
            for c in super().containers(states)
        )


def verdict_of(master: PretendMaster, layout: str, read_log) -> ApplicationStatus:
    chosen = job(layout, limits=make_limits(settle=0.0), failure=NEVER)
    master.begin(new_state(chosen).instances)
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    made = Loop(chosen, master, inbox, time.monotonic, time.time, lambda _: None, Told(read_log))  # type: ignore[arg-type]
    return made.run()


def test_a_container_that_never_spoke_is_judged_by_its_log():
    master = OnNodes({"worker/0": EXIT_0, "worker/1": EXIT_0})
    master.dead_on_arrival.add("worker/1")
    main = threading.get_ident()

    def read_log(node: str, container: str, file: str) -> str:
        assert threading.get_ident() != main
        assert (node, container, file) == ("n:8042", "container_worker_1", "worker.log")
        return f"noise\n{CANNOT_START}no such interpreter\n"

    status = verdict_of(master, "worker=2", read_log)
    assert status.verdict is not None
    assert status.verdict.cause is not None
    assert status.verdict.cause.exit.text == "no such interpreter"


def test_many_that_die_at_once_on_silent_nodes_delay_the_verdict_once(monkeypatch):
    monkeypatch.setattr(nodes, "THREADS", 10)
    monkeypatch.setattr("tfapp.coordinator.executor.LOG_LIMIT", 1.0)
    monkeypatch.setattr(nodes, "LOG_LIMIT", 1.0)
    master = OnNodes({})
    master.dead_on_arrival.update(f"worker/{i}" for i in range(100))
    over = threading.Event()

    def read_log(node: str, container: str, file: str) -> str:
        over.wait(3.0)
        return ""

    begun = time.monotonic()
    try:
        status = verdict_of(master, "worker=100", read_log)
    finally:
        over.set()
    assert time.monotonic() - begun < 25  # one after the other, ten at a time, they take 30 s
    assert status.verdict is not None
    assert "its container ended without a report: it failed" in status.verdict.summary
    # One look finds the dead among those that are announced, one says why they died.
    assert master.calls.count("containers") == 2


class OfQueues(Told):
    def waits(self, state, queue):
        return ("", GRANTED) if state == "RUNNING" else (f"waiting in {queue}", QUEUE)


class Quiet:
    """A master that does not tell by itself what its container waits for, nor at first at all."""

    def __init__(self):
        self.state = "REQUESTED"
        self.threads: list[int] = []

    def queue(self) -> str:
        self.threads.append(threading.get_ident())
        if len(self.threads) == 1:
            raise UnreachableError("no answer")
        return "nightly"

    def containers(self, _) -> tuple[ContainerReport, ...]:
        return (ContainerReport("worker_0", "worker", self.state, "h", ""),)


def test_what_containers_wait_for_is_asked_beside_the_loop_while_one_is_unheard():
    now, inbox, master = [0.0], queue.SimpleQueue(), Quiet()
    asked = nodes.Waits(master, lambda: now[0], inbox.put, OfQueues())  # type: ignore[arg-type]
    state, _ = step(new_state(job("worker=1")), events.Started(0.0))

    def answer(time: float, state=state):
        now[0] = time
        before = set(threading.enumerate())  # one of an earlier test may end meanwhile
        asked.look(state)
        asked.look(state)  # the first question has not been answered
        if not set(threading.enumerate()) - before and inbox.empty():
            return None
        told = inbox.get(timeout=30)
        wait(lambda: not set(threading.enumerate()) - before, "a thread stays", 30)
        assert inbox.empty()
        asked.told()
        return told

    assert answer(nodes.ASK_AFTER - 1) is None  # most are heard of by then
    assert answer(nodes.ASK_AFTER) == nodes.Asked({})  # no answer is no news
    assert answer(6) is None
    assert answer(7) == nodes.Asked({"worker_0": ("waiting in nightly", QUEUE)})
    master.state = "RUNNING"
    assert answer(9) == nodes.Asked({"worker_0": ("", GRANTED)})
    assert threading.get_ident() not in master.threads
    heard, _ = step(state, events.Beaten(10, "worker/0", BEAT))
    assert answer(60, heard) is None
    other = nodes.Waits(master, lambda: 60.0, inbox.put, Told())  # type: ignore[arg-type]
    other.look(state)  # its master tells by itself
    assert len(master.threads) == 2 and inbox.empty()


def test_who_waits_for_a_queue_is_told_apart_from_who_waits_for_nodes_that_are_gone():
    """Which nodes there are is asked once in a while, and what was known holds meanwhile."""
    now, told, master = [10.0], queue.SimpleQueue(), Quiet()
    gone = {"worker": "no such node"}
    answers = [gone, UnavailableError("no answer"), {}]
    seen = []

    def unfit():
        seen.append(now[0])
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    waits = nodes.Waits(master, lambda: now[0], told.put, OfQueues(), unfit)  # type: ignore[arg-type]
    state, _ = step(new_state(job("worker=1")), events.Started(0.0))
    in_vain = nodes.Asked({"worker_0": ("waiting in nightly: no such node", NODES)})
    hopeful = nodes.Asked({"worker_0": ("waiting in nightly", QUEUE)})
    master.threads.append(0)  # it answers at once
    every = nodes.LOOK_EVERY
    for time_, expected in ((10, in_vain), (15, in_vain), (10 + every, in_vain), (130, hopeful)):
        now[0] = time_
        waits.look(state)
        assert told.get(timeout=30) == expected
        waits.told()
    assert seen == [10, 10 + every, 130]
    master.state, now[0] = "RUNNING", 300
    waits.look(state)
    assert told.get(timeout=30) == nodes.Asked({"worker_0": ("", GRANTED)})
    assert not answers and len(seen) == 3


def test_what_they_wait_for_holds_the_application_back():
    master = PretendMaster({})
    master.react = lambda *_: None  # type: ignore[method-assign]
    seen = []
    master.on_call = lambda call: seen.append(master.store.get(KEY_STATUS))
    chosen = job("worker=2", failure=NEVER)
    master.begin(new_state(chosen).instances)
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    made = Loop(chosen, master, inbox, time.monotonic, time.time, lambda _: None, OfQueues())  # type: ignore[arg-type]
    words = {"worker_0": ("waiting in nightly", QUEUE), "other_0": ("", GRANTED)}
    inbox.put(nodes.Asked(words))
    threading.Timer(1.0, inbox.put, [Terminated("enough")]).start()
    made.run()
    held = [json.loads(value[0]) for value in seen if value]
    (status,) = {s["held"]["kind"]: s for s in held if s["held"]}.values()
    assert status["held"]["kind"] == QUEUE
    assert [i["preparing"] for i in status["instances"]] == ["waiting in nightly", ""]
