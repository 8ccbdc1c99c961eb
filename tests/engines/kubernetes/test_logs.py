from __future__ import annotations

import datetime
import itertools
import threading

import pytest

from tests.waiting import wait
from tfapp.contract.log_times import Times
from tfapp.contract.names import LOG_BEGINS
from tfapp.engines.kubernetes.logs import PodLog, PodLogs, in_order, sources
from tfapp.errors import NotFoundError, UnavailableError

POD = "tfapp-train-1-worker-0"
LIMIT = 60.0  # seconds
RUNNING = PodLog("worker/0", POD, over=False)
OVER = PodLog("worker/0", POD, over=True)


class PlayedCluster:
    """Gives logs as the API does: `lines` are of one pod, (time, text), those from `kept` on are in
    the node's newest file."""

    def __init__(self):
        self.lines: list[tuple[str, str]] = [(at(0), LOG_BEGINS)]
        self.kept = 0
        self.end = "\n"  # of the last line
        self.breaks_after: int | None = None
        self.broken = False
        self.asked: list[str] = []
        self.changed = threading.Condition()
        self.ended = False

    def add(self, *lines):
        with self.changed:
            self.lines += lines
            self.changed.notify_all()

    def break_off(self):
        """Breaks a connection that follows."""
        with self.changed:
            self.broken = True
            self.changed.notify_all()

    def log(self, pod, container, since="", follow=False):
        self.asked.append(since)
        yield []
        place, number = self.kept, 0
        while True:
            with self.changed:
                if follow and place == len(self.lines) and not (self.ended or self.broken):
                    self.changed.wait(LIMIT)
                found, place = self.lines[place:], len(self.lines)
                if follow and self.broken:
                    self.broken = False
                    raise UnavailableError("the API is away")
            for at, text in found:
                if at[:19] < since[:19]:
                    continue
                if number == self.breaks_after:
                    raise UnavailableError("the API is away")
                number += 1
                end = self.end if (at, text) == self.lines[-1] else "\n"
                yield [f"{at} {text}{end}".encode()]
            if not follow or (self.ended and place == len(self.lines)):
                return


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
    logs = PodLogs(cluster, tmp_path / "a", clock)
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


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"\xff", b"{}", b'{"instance": "w/0", "size": "x"}']
)
def test_a_position_that_cannot_be_read_is_begun_anew(cluster, tmp_path, clock, content):
    cluster.lines.append((at(1), "one"))
    expected = text(PodLogs(cluster, tmp_path / "a", clock), RUNNING)
    (tmp_path / "a" / f"{POD}.position.json").write_bytes(content)
    assert text(PodLogs(cluster, tmp_path / "a", clock), RUNNING) == expected


def test_the_times_of_lines(cluster, tmp_path, clock):
    cluster.lines[1:] = [(at(1), "one"), (at(2, "250000000"), "two")]
    (log,) = PodLogs(cluster, tmp_path / "a", clock).files([RUNNING])
    cluster.lines.append((at(9), "three"))
    PodLogs(cluster, tmp_path / "a", clock).files([RUNNING])
    times = Times(log.path)
    times.update()
    first = datetime.datetime(2026, 11, 23, 5, 0, 1, tzinfo=datetime.timezone.utc).timestamp()
    assert [times.at(place) - first for place in (0, 4, 8)] == [0, 1.25, 8]


def test_another_process_goes_on(cluster, tmp_path, clock):
    cluster.lines[1:] = [(at(1), "one"), (at(2), "two")]
    assert text(PodLogs(cluster, tmp_path / "a", clock), RUNNING) == [("one\ntwo\n", "")]
    cluster.lines.append((at(2), "three"))
    assert text(PodLogs(cluster, tmp_path / "a", clock), RUNNING) == [("one\ntwo\nthree\n", "")]


def test_a_connection_that_breaks(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines[1:] = [(at(1), "one"), (at(2), "two")]
    cluster.breaks_after = 2
    assert text(logs, RUNNING) == [("one\n", "the API is away")]
    cluster.breaks_after = None
    assert text(logs, RUNNING) == [("one\ntwo\n", "")]


def test_a_line_is_copied_when_it_is_whole(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines[1:], cluster.end = [(at(1), "one"), (at(2), "half")], ""
    assert text(logs, RUNNING) == [("one\n", "")]
    assert text(logs, OVER) == [("one\nhalf", "")]


def test_a_node_deletes_old_lines(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines[1:] = [(at(1), "one"), (at(2), "two"), (at(2, "3"), "three")]
    assert text(logs, RUNNING) == [("one\ntwo\nthree\n", "")]
    cluster.kept = 3
    cluster.lines.append((at(3), "four"))
    assert text(logs, RUNNING) == [("one\ntwo\nthree\nfour\n", "")]
    cluster.lines += [(at(4), "lost"), (at(5), "five")]
    cluster.kept = 6
    gap = f"tfapp: lines between {at(3)} and {at(5)} may be missing: the node had deleted them\n"
    assert text(logs, RUNNING) == [(f"one\ntwo\nthree\nfour\n{gap}five\n", "")]
    cluster.lines.append((at(5), "six"))
    again = PodLogs(cluster, tmp_path / "a", clock)
    assert text(again, OVER) == [(f"one\ntwo\nthree\nfour\n{gap}five\nsix\n", "")]


def test_the_beginning_is_deleted_before_anybody_has_asked(cluster, tmp_path, clock):
    cluster.lines += [(at(1), "one"), (at(2), "two")]
    cluster.kept = 2
    gap = f"tfapp: lines before {at(2)} may be missing: the node had deleted them\n"
    assert text(PodLogs(cluster, tmp_path / "a", clock), RUNNING) == [(f"{gap}two\n", "")]


def test_words_of_the_kubelet_are_no_line(cluster, tmp_path, clock):
    words = "unable to retrieve container logs for containerd://223b"
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines.append((at(1), "one"))
    given = cluster.log

    def breaks_off(*args, **more):
        yield from given(*args, **more)
        yield [words.encode()]

    cluster.log = breaks_off
    assert text(logs, OVER) == [("one\n", words)]
    cluster.log = given
    assert text(logs, OVER) == [("one\n", "")]


# ---- Following --------------------------------------------------------------------------------
def eventually(ready, what):
    wait(ready, what, LIMIT, every=0.005)


def followed(cluster, folder, source=RUNNING):
    """Logs that are asked for again and again."""
    logs = PodLogs(cluster, folder, lambda: 0.0)
    logs.files([source])
    logs.files([source])
    return logs


def test_a_log_that_is_followed_loses_nothing_to_the_node(cluster, tmp_path):
    """Who asks now and then would: the node keeps the newest line alone."""
    logs = followed(cluster, tmp_path)
    path = tmp_path / f"{POD}.log"
    for number in range(1, 30):
        cluster.add((at(number), f"line {number}"))
        eventually(lambda n=number: f"line {n}\n" in path.read_text(), "the line")
        cluster.kept = number + 1
    cluster.add((at(40), "last"))
    cluster.ended = True
    expected = "".join(f"line {number}\n" for number in range(1, 30)) + "last\n"
    cluster.add()
    assert text(logs, OVER) == [(expected, "")]


def test_the_last_lines_are_waited_for(cluster, tmp_path):
    """They are not there yet when the pod has ended."""
    logs = followed(cluster, tmp_path)
    slow = threading.Timer(0.3, lambda: (setattr(cluster, "ended", True), cluster.add()))
    cluster.lines += [(at(n), f"line {n}") for n in range(1, 20)]
    slow.start()
    expected = "".join(f"line {number}\n" for number in range(1, 20))
    assert text(logs, OVER) == [(expected, "")]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_connection_breaks_while_a_log_is_followed(cluster, tmp_path, deleted):
    logs = followed(cluster, tmp_path)
    path = tmp_path / f"{POD}.log"
    # Two of one moment, and one that two streams have written in the other order.
    cluster.add((at(3), "a"), (at(3), "b"), (at(2, "9"), "c"))
    eventually(lambda: "c\n" in path.read_text(), "the lines")
    cluster.lines.append((at(3), "d"))
    if deleted:
        cluster.kept = 5
        cluster.lines.append((at(4), "e"))
    cluster.break_off()
    gap = f"tfapp: lines between {at(3)} and {at(4)} may be missing: the node had deleted them\n"
    expected = f"a\nb\nc\n{gap}e\n" if deleted else "a\nb\nc\nd\n"
    eventually(lambda: path.read_text() == expected, "what comes after")
    cluster.ended = True
    cluster.add()
    assert text(logs, OVER) == [(expected, "")]


def test_two_commands_follow_the_same_log(cluster, tmp_path):
    """Their copy is one. One that asks now and then is a third."""
    first, second = followed(cluster, tmp_path), followed(cluster, tmp_path)
    third = PodLogs(cluster, tmp_path, itertools.count(0, 20).__next__)
    for number in range(1, 200):
        cluster.add((at(number // 7), f"line {number}"))
        if number % 50 == 0:
            third.files([RUNNING])
        if number % 70 == 0:
            cluster.break_off()
    cluster.ended = True
    cluster.add()
    expected = "".join(f"line {number}\n" for number in range(1, 200))
    for logs in (first, second, third):
        assert text(logs, OVER) == [(expected, "")]


def test_what_was_returned_is_no_line_of_the_log(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines[1:] = [(at(1), "one"), (at(2), 'tfapp: returned {"value": 3}')]
    (record,) = logs.returned([OVER])
    assert (record.instance, record.path.read_text()) == ("worker/0", '{"value": 3}\n')
    assert text(logs, OVER) == [("one\n", "")]


def test_the_pod_of_the_master_has_two_logs(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    source = PodLog("coordinator", "tfapp-train-1-x5f2a", over=False)
    cluster.lines[:] = [(at(1), "tfapp: master: serves")]
    assert [log.instance for log in logs.files([source])] == ["master"]
    cluster.lines += [(at(2), "generation 1"), (at(2), "tfapp: master: ends")]
    texts = {log.instance: log.path.read_text() for log in logs.files([source])}
    assert texts == {"coordinator": "generation 1\n", "master": "serves\nends\n"}


def test_a_pod_that_is_gone(cluster, tmp_path, clock):
    logs = PodLogs(cluster, tmp_path / "a", clock)
    cluster.lines[1:] = [(at(1), "one")]
    assert text(logs, RUNNING) == [("one\n", "")]
    (kept,) = logs.kept(["tfapp-train-1-ps-1"])
    assert kept.instance == "worker/0"
    assert text(logs, kept) == [("one\n", "")]
    assert list(logs.kept([POD])) == []

    def gone(*words, **more):
        raise NotFoundError("there is no such pod")

    cluster.log = gone
    other = PodLog("ps/0", "tfapp-train-1-ps-1", over=False)
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
        PodLog("ps/0", "tfapp-a-1-ps-0", over=False),
        PodLog("worker/0", "tfapp-a-1-worker-0", over=False, begun=False),
        PodLog("worker/1", "tfapp-a-1-worker-2", over=True),
        PodLog("worker/1", "tfapp-a-1-worker-10", over=False),
        PodLog("coordinator", "tfapp-a-1-xyz12", over=False),
    )
