"""Reading a log from its end while it grows, and what of an application cannot be read."""

from __future__ import annotations

import contextlib
import io
import json
import urllib.error

import pytest

from tfapp.engines.base import LogFile
from tfapp.engines.yarn.live_logs import ATTEMPTS, MARGIN, LiveLogs, new_bytes
from tfapp.engines.yarn.nodes import Piece
from tfapp.engines.yarn.web import DeniedError
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.protocol.connection import ContainerReport


class Log:
    """A log that is `growth` bytes longer at each look, and remembers what was asked."""

    def __init__(self, length: int, growth: int = 0):
        self.length, self.growth = length, growth
        self.asked: list[int] = []

    def whole(self) -> bytes:
        return bytes(i % 251 for i in range(self.length))

    def read(self, last: int) -> Piece:
        self.asked.append(last)
        piece = Piece(self.whole()[-last:], self.length)
        self.length += self.growth
        return piece


@pytest.mark.parametrize(
    ("length", "have"),
    [(0, 0), (10, 0), (10, 4), (10, 10), (3 * MARGIN, 0), (3 * MARGIN, MARGIN)],
)
def test_exactly_what_is_new_is_read(length, have):
    log = Log(length)
    assert new_bytes(have, log.read) == log.whole()[have:]


def test_nothing_is_left_out_of_a_log_that_grows_meanwhile():
    log = Log(3 * MARGIN, growth=MARGIN // 2)
    assert new_bytes(7, log.read) == log.whole()[7 : 3 * MARGIN + MARGIN // 2]
    assert len(log.asked) == 2


def test_a_log_that_is_shorter_than_the_copy_adds_nothing():
    assert new_bytes(20, Log(10).read) == b""


def test_a_log_that_grows_too_fast_is_left_for_the_next_time():
    lengths = iter(range(0, 10**9, 10**8))

    def read(last: int) -> Piece:
        return Piece(b"x", next(lengths) + 10**6)

    assert new_bytes(0, read) == b""
    assert next(lengths) == (ATTEMPTS + 1) * 10**8


class Master:
    """Of worker/0 ... worker/3, each on a node of its own; `others` are in the place of theirs."""

    def __init__(self, others):
        self.others = {container.id: container for container in others}

    def get(self, key):
        instances = [
            {
                "instance": f"worker/{i}",
                "component": "worker",
                "role": "worker",
                "state": "RUNNING",
                "container": f"worker_{i}",
            }
            for i in range(4)
        ]
        return json.dumps(
            {
                "name": "app",
                "state": "RUNNING",
                "generation": 1,
                "started": 1.0,
                "updated": 1.0,
                "instances": instances,
            }
        )

    def containers(self, states):
        found = [
            ContainerReport(
                f"worker_{i}", "worker", "RUNNING", "", "", f"container_{i}", f"n{i}:8042"
            )
            for i in range(4)
        ]
        return [self.others.get(container.id, container) for container in found]


class Nodes:
    """The nodes' pages; `errors` of some. On others no function has returned anything."""

    def __init__(self, errors: dict[str, OSError], nothing_returned: tuple[str, ...] = ()):
        self.errors = errors
        self.nothing_returned = nothing_returned

    def read_log(self, node: str, container: str, file: str, last: int) -> Piece:
        if node in self.errors:
            raise self.errors[node]
        if file == "tfapp-returned.json" and node in self.nothing_returned:
            raise NOT_FOUND
        return Piece(b"words\n", 6)


@contextlib.contextmanager
def read(folder, nodes: Nodes, *others: ContainerReport):
    logs = LiveLogs(
        folder,
        lambda: contextlib.nullcontext(Master(others)),
        dict,
        lambda log: log.instance,
        nodes,
    )
    try:
        yield logs
    finally:
        logs.close()


NOT_FOUND = urllib.error.HTTPError("http://n3:8042", 404, "Not Found", None, io.BytesIO())
REFUSED = urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))
DENIED = DeniedError("n2:8042 asks for Kerberos: no ticket")


def test_a_log_whose_node_does_not_show_it_is_named_with_the_reason(tmp_path):
    with read(
        tmp_path, Nodes({"n1:8042": REFUSED, "n2:8042": DENIED, "n3:8042": NOT_FOUND})
    ) as logs:
        assert logs.files() == (
            LogFile("worker/0", tmp_path / "container_0/worker.log"),
            LogFile(
                "worker/1",
                tmp_path / "container_1/worker.log",
                "n1:8042 does not answer: Connection refused",
            ),
            LogFile("worker/2", tmp_path / "container_2/worker.log", str(DENIED)),
        )


def test_a_log_whose_node_is_lost_says_so(tmp_path):
    lost = ContainerReport(
        *("worker_1", "worker", "KILLED", "", "Container released on a *lost* node"),
        *("container_1", "n1:8042"),
    )
    with read(tmp_path, Nodes({"n1:8042": REFUSED}), lost) as logs:
        missing = {log.instance: log.missing for log in logs.files() if log.missing}
    assert missing == {
        "worker/1": "its node n1 is lost, and its log is there; YARN gathers it if it comes back"
    }


def test_whose_a_copy_is_stands_beside_it(tmp_path):
    with read(tmp_path, Nodes({})) as logs:
        logs.files()
    assert (tmp_path / "container_1" / "tfapp-instance").read_text() == "worker/1"


def test_a_log_that_can_be_had_again_is_missing_no_more(tmp_path):
    nodes = Nodes({"n1:8042": TimeoutError("timed out")})
    with read(tmp_path, nodes) as logs:
        assert logs.files()[1].missing == "n1:8042 does not answer: timed out"
        nodes.errors.clear()
        logs.copy()
        assert logs.files()[1] == LogFile("worker/1", tmp_path / "container_1/worker.log")
        assert logs.files()[1].path.read_text() == "words\n"


def test_nodes_that_show_nothing_to_the_user_are_an_error(tmp_path):
    nodes = Nodes(dict.fromkeys([f"n{i}:8042" for i in range(4)], DENIED))
    message = "n2:8042 asks for Kerberos: no ticket"
    with read(tmp_path, nodes) as logs, pytest.raises(UnavailableError, match=message):
        logs.files()


def test_what_functions_returned_is_copied_and_a_silent_node_makes_it_missing(tmp_path):
    nodes = Nodes({"n1:8042": REFUSED}, nothing_returned=("n3:8042",))
    stale = tmp_path / "container_3" / "tfapp-returned.json"
    stale.parent.mkdir()
    stale.write_text("of an earlier generation")
    with read(tmp_path, nodes) as logs:
        paths = [tmp_path / f"container_{i}" / "tfapp-returned.json" for i in range(3)]
        assert logs.returned() == (
            LogFile("worker/0", paths[0]),
            LogFile("worker/1", paths[1], "n1:8042 does not answer: Connection refused"),
            LogFile("worker/2", paths[2]),
        )
        assert not stale.exists()
        assert paths[0].read_text() == "words\n"
        assert (paths[0].parent / "tfapp-instance").read_text() == "worker/0"
        assert not logs.copy_at_end()
        del nodes.errors["n1:8042"]
        assert logs.copy_at_end()
        known = tuple(map(LogFile, ("worker/0", "worker/1", "worker/2"), paths))
        assert logs.returned() == known


def test_at_the_end_the_master_is_asked_once(tmp_path):
    asked = []

    def connect():
        if asked:
            raise UnreachableError("it has ended")
        asked.append(1)
        return contextlib.nullcontext(Master(()))

    logs = LiveLogs(tmp_path, connect, dict, lambda log: log.instance, Nodes({}))
    assert logs.copy_at_end()
    for name in ("worker.log", "tfapp-returned.json"):
        assert (tmp_path / "container_3" / name).read_text() == "words\n"
    assert not logs.copy_at_end()


def test_a_record_that_was_copied_stays_when_yarn_has_moved_the_logs_away(tmp_path):
    with read(tmp_path, Nodes({})) as logs:
        assert logs.copy_at_end()
        found = logs.returned()
        assert len(found) == 4
    with read(tmp_path, Nodes({"n3:8042": NOT_FOUND})) as logs:
        assert not logs.copy_at_end()
        assert logs.returned() == found
        assert logs.status.generation == 1
