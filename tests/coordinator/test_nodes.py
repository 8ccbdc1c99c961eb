"""The ends of logs, read beside the loop."""

import queue
import threading
import time
from types import SimpleNamespace

import pytest

from tests.contract_values import make_limits
from tests.coordinator.pretend_master import EXIT_0, PretendMaster
from tests.coordinator.world import NEVER, job
from tfapp.contract.names import CANNOT_START
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator import nodes
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.loop import Loop
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.state import new_state
from tfapp.protocol.connection import ContainerReport


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
