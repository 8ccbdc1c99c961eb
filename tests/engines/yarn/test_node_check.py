"""An interpreter is looked for on each node, by an application of one container each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfapp.contract.names import CANNOT_START
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding
from tfapp.engines.yarn import node_check
from tfapp.engines.yarn.cluster import Queue, YarnNode
from tfapp.engines.yarn.nodes import LogPiece
from tfapp.errors import UnavailableError
from tfapp.protocol.connection import ContainerReport

NODES = (YarnNode("h0", frozenset(), 1, 1, 0), YarnNode("h1", frozenset(), 1, 1, 0))
GPU_NODES = (
    YarnNode("h2", frozenset({"gpu"}), 1, 1, 0),
    YarnNode("h3", frozenset({"gpu"}), 1, 1, 0),
)
QUEUE = Queue("default", True, frozenset({"gpu"}))


class Played:
    """A cluster that starts applications at once; `containers` are what a master says, look by
    look; `logs` what nodes show. What it has been told to end is in `killed`."""

    def __init__(self, containers=(), logs=None, address="h1:1", queue=QUEUE):
        self.looks = list(containers)
        self.logs = logs or {}
        self.address = address
        self.killed: list[str] = []
        self.specs = []
        self.queue = queue

    def queues(self):
        return (self.queue, Queue("other", True, frozenset()))

    def submit(self, spec):
        self.specs.append(spec)
        return f"application_1_{len(self.specs):04}"

    def application(self, application):
        return SimpleNamespace(address=self.address, ended=False, diagnostics="", state="ACCEPTED")

    def kill(self, application):
        self.killed.append(application)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def containers(self, states):
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def read_log(self, node, container, file, last):
        if container not in self.logs:
            raise OSError("no")
        data = self.logs[container].encode()
        return LogPiece(data, len(data))


@pytest.fixture
def examine(monkeypatch):
    monkeypatch.setattr(node_check, "LOOK_EVERY", 0.001)

    def examine(played: Played, nodes=NODES) -> list[Finding]:
        monkeypatch.setattr(node_check, "connect", lambda *_: played)
        return list(node_check.examine_nodes(played, played, nodes, "python3", "default", 1000.0))

    return examine


def report(number: int, state: str, message: str = "") -> ContainerReport:
    service, yarn_id = f"node{number}", f"container_{number}"
    return ContainerReport(f"{service}_0", service, state, f"h{number}", message, yarn_id, "n:1")


def test_what_each_container_has_found(examine):
    running = [report(0, "RUNNING"), report(1, "RUNNING")]
    one = [report(0, "SUCCEEDED"), report(1, "RUNNING")]
    both = [report(0, "SUCCEEDED"), report(1, "FAILED", "exit code 1")]
    logs = {"container_0": "Python 3.11\n", "container_1": f"x\n{CANNOT_START}no module grpc\n"}
    played = Played([running, one, both], logs)
    assert examine(played) == [
        Finding("node", OK, "h0: Python 3.11"),
        Finding("node", PROBLEM, "h1: no module grpc", node_check._MEND),
    ]
    assert played.killed == ["application_1_0001"]


def places(played: Played) -> list[tuple[str, list[list[str]]]]:
    """For each application its label, and the nodes of its services."""
    for spec in played.specs:
        assert {(s.node_label, s.relax_locality) for s in spec.services.values()} == {("", False)}
    return [(spec.node_label, [s.nodes for s in spec.services.values()]) for spec in played.specs]


def test_each_node_of_each_label(examine):
    """YARN takes a host or a label with a request: the label is the application's."""
    played = Played([[report(0, "SUCCEEDED"), report(1, "SUCCEEDED")]])
    assert [found.level for found in examine(played, (*NODES, *GPU_NODES))] == [OK] * 4
    assert places(played) == [("", [["h0"], ["h1"]]), ("gpu", [["h2"], ["h3"]])]
    assert played.killed == ["application_1_0001", "application_1_0002"]


@pytest.mark.parametrize(
    ("queue", "tried", "others"),
    [
        (Queue("default", True, frozenset({"*"}), "gpu"), ["gpu"], "h0, h1"),
        (Queue("default", True, frozenset({"fpga"})), [""], "h2, h3"),
        (Queue("default", True, frozenset({"*"})), ["", "gpu"], None),
        (Queue("of rules that only YARN knows", True, frozenset()), ["", "gpu"], None),
    ],
)
def test_nodes_that_get_nothing_from_the_queue(examine, queue, tried, others):
    """With a default label, a request that names none does not go to nodes without one."""
    played = Played([[report(0, "SUCCEEDED"), report(1, "SUCCEEDED")]], queue=queue)
    found = examine(played, (*NODES, *GPU_NODES))
    assert [label for label, _ in places(played)] == tried
    left = [finding for finding in found if "not tried" in finding.text]
    text = f"{others}: not tried, no container of queue 'default' goes there"
    assert left == ([Finding("node", OK, text)] if others else [])


def test_what_nodes_do_not_show(examine):
    played = Played([[report(0, "SUCCEEDED"), report(1, "FAILED", "exit code 1")]])
    assert [finding.text for finding in examine(played)] == ["h0: it starts", "h1: exit code 1"]


def test_a_container_that_does_not_end(examine, monkeypatch):
    monkeypatch.setattr(node_check, "LIMIT", 0.05)
    played = Played([[report(0, "SUCCEEDED"), report(1, "REQUESTED")]])
    assert [(f.level, f.text) for f in examine(played)] == [
        (OK, "h0: it starts"),
        (WARNING, "a container did not end within 0.05 s (REQUESTED)"),
    ]
    assert played.killed == ["application_1_0001"]


def test_an_application_that_does_not_begin(examine, monkeypatch):
    monkeypatch.setattr(node_check, "LIMIT", 0.0)
    played = Played(address="")
    (finding,) = examine(played)
    assert finding.text == "the check on the nodes did not begin within 0 s: ACCEPTED"
    assert played.killed == ["application_1_0001"]


def test_a_cluster_that_takes_nothing(examine):
    played = Played()

    def submit(spec):
        raise UnavailableError("YARN did not take the application", "Why not?")

    played.submit = submit
    expected = Finding(
        "python on the nodes", PROBLEM, "YARN did not take the application", "Why not?"
    )
    assert examine(played) == [expected]
    assert played.killed == []
