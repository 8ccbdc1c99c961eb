from __future__ import annotations

import datetime
import itertools

import pytest

from tfapp.contract.log_times import Times
from tfapp.engines.kubernetes.logs import Logs, Source, in_order, sources
from tfapp.errors import NotFoundError, UnavailableError

POD = "tfapp-train-1-worker-0"
RUNNING = Source("worker/0", POD, over=False)
OVER = Source("worker/0", POD, over=True)


class PlayedCluster:
    """Gives logs as the API does: `lines` are of one pod, (time, text)."""

    def __init__(self):
        self.lines: list[tuple[str, str]] = []
        self.end = "\n"  # of the last line
        self.breaks_after: int | None = None
        self.asked: list[str] = []

    def log(self, pod, container, since="", tail=None):
        self.asked.append(since)
        chosen = [(at, text) for at, text in self.lines if at[:19] >= since[:19]]
        for number, (at, text) in enumerate(chosen):
            if number == self.breaks_after:
                raise UnavailableError("the API is away")
            end = self.end if (at, text) == self.lines[-1] else "\n"
            yield f"{at} {text}{end}".encode()


def at(second, fraction="000000000"):
    return f"2026-11-23T05:{second // 60:02d}:{second % 60:02d}.{fraction}Z"


@pytest.fixture
def cluster():
    return PlayedCluster()


@pytest.fixture
def clock():
    """Moves on by ten seconds after two looks: before a copy and after it."""
    return (10 * (n // 2) for n in itertools.count()).__next__


def text(logs, *found):
    return [(log.path.read_text(), log.missing) for log in logs.files(found)]


def test_a_log_grows_without_doubles_and_gaps(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    expected = ""
    for second in range(0, 40, 3):
        # Two of one moment, one that two streams have written in the other order.
        for moment in (at(second), at(second), at(second, "5"), at(second, "4")):
            line = f"line {len(cluster.lines)}"
            cluster.lines.append((moment, line))
            expected += f"{line}\n"
            assert text(logs, RUNNING) == [(expected, "")]
    assert text(logs, OVER) == [(expected, "")]
    # Not from the beginning each time.
    assert cluster.asked[-1] == "2026-11-23T05:00:38Z"


def test_the_times_of_lines(cluster, tmp_path, clock):
    cluster.lines = [(at(1), "one"), (at(2, "250000000"), "two")]
    (log,) = Logs(cluster, tmp_path / "a", clock).files([RUNNING])
    cluster.lines.append((at(9), "three"))
    Logs(cluster, tmp_path / "a", clock).files([RUNNING])
    times = Times(log.path)
    times.update()
    first = datetime.datetime(2026, 11, 23, 5, 0, 1, tzinfo=datetime.timezone.utc).timestamp()
    assert [times.at(place) - first for place in (0, 4, 8)] == [0, 1.25, 8]


def test_another_process_goes_on(cluster, tmp_path, clock):
    cluster.lines = [(at(1), "one"), (at(2), "two")]
    assert text(Logs(cluster, tmp_path / "a", clock), RUNNING) == [("one\ntwo\n", "")]
    cluster.lines.append((at(2), "three"))
    assert text(Logs(cluster, tmp_path / "a", clock), RUNNING) == [("one\ntwo\nthree\n", "")]


def test_a_connection_that_breaks(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    cluster.lines = [(at(1), "one"), (at(2), "two")]
    cluster.breaks_after = 1
    assert text(logs, RUNNING) == [("one\n", "the API is away")]
    cluster.breaks_after = None
    assert text(logs, RUNNING) == [("one\ntwo\n", "")]


def test_a_line_is_copied_when_it_is_whole(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    cluster.lines, cluster.end = [(at(1), "one"), (at(2), "half")], ""
    assert text(logs, RUNNING) == [("one\n", "")]
    assert text(logs, OVER) == [("one\nhalf", "")]


def test_a_node_deletes_old_lines(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    cluster.lines = [(at(1), "one"), (at(2), "two"), (at(2, "3"), "three")]
    assert text(logs, RUNNING) == [("one\ntwo\nthree\n", "")]
    cluster.lines = [(at(2, "3"), "three"), (at(3), "four")]
    assert text(logs, RUNNING) == [("one\ntwo\nthree\nfour\n", "")]


def test_what_was_returned_is_no_line_of_the_log(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    cluster.lines = [(at(1), "one"), (at(2), 'tfapp: returned {"value": 3}')]
    (record,) = logs.returned([OVER])
    assert (record.instance, record.path.read_text()) == ("worker/0", '{"value": 3}\n')
    assert text(logs, OVER) == [("one\n", "")]


def test_the_pod_of_the_master_has_two_logs(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    source = Source("coordinator", "tfapp-train-1-x5f2a", over=False)
    cluster.lines = [(at(1), "tfapp: master: serves")]
    assert [log.instance for log in logs.files([source])] == ["master"]
    cluster.lines += [(at(2), "generation 1"), (at(2), "tfapp: master: ends")]
    texts = {log.instance: log.path.read_text() for log in logs.files([source])}
    assert texts == {"coordinator": "generation 1\n", "master": "serves\nends\n"}


def test_a_pod_that_is_gone(cluster, tmp_path, clock):
    logs = Logs(cluster, tmp_path / "a", clock)
    cluster.lines = [(at(1), "one")]
    assert text(logs, RUNNING) == [("one\n", "")]
    (kept,) = logs.kept(["tfapp-train-1-ps-1"])
    assert kept.instance == "worker/0"
    assert text(logs, kept) == [("one\n", "")]
    assert list(logs.kept([POD])) == []

    def gone(*words, **more):
        raise NotFoundError("there is no such pod")

    cluster.log = gone
    other = Source("ps/0", "tfapp-train-1-ps-1", over=False)
    (log,) = logs.files([other])
    assert log.missing == "its pod was deleted, and its log with it"


def pod(name, instance="", state="running", phase="Running"):
    labels = {"tfapp/instance": instance} if instance else {}
    status = {"phase": phase, "containerStatuses": [{"name": "tfapp", "state": {state: {}}}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def test_pods_are_in_job_order():
    pods = [
        pod("tfapp-a-1-xyz12"),
        pod("tfapp-a-1-worker-10", "worker-1"),
        pod("tfapp-a-1-worker-2", "worker-1", "terminated", "Failed"),
        pod("tfapp-a-1-worker-0", "worker-0", "waiting", "Pending"),
        pod("tfapp-a-1-ps-0", "ps-0"),
    ]
    job_order = ["ps/0", "worker/0", "worker/1"]
    assert in_order(sources(pods, job_order), job_order) == (
        Source("ps/0", "tfapp-a-1-ps-0", over=False),
        Source("worker/0", "tfapp-a-1-worker-0", over=False, begun=False),
        Source("worker/1", "tfapp-a-1-worker-2", over=True),
        Source("worker/1", "tfapp-a-1-worker-10", over=False),
        Source("coordinator", "tfapp-a-1-xyz12", over=False),
    )
