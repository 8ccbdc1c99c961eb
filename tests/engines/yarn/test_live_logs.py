"""Reading a log from its end while it grows, and what of an application cannot be read."""

from __future__ import annotations

import contextlib
import io
import json
import urllib.error

import pytest

from tfapp.engines.base import LogFile
from tfapp.engines.yarn.live_logs import ATTEMPTS, MARGIN, LiveLogs, new_bytes
from tfapp.engines.yarn.web import DeniedError, Piece
from tfapp.errors import UnavailableError
from tfapp.skein_calls.containers import Container


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
    """Of worker/0 ... worker/3, each on a node of its own."""

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
        return [
            Container(f"worker_{i}", "worker", "RUNNING", "", "", f"container_{i}", f"n{i}:8042")
            for i in range(4)
        ]


class Nodes:
    """The nodes' pages; `errors` of some."""

    def __init__(self, errors: dict[str, OSError]):
        self.errors = errors

    def read_log(self, node: str, container: str, file: str, last: int) -> Piece:
        if node in self.errors:
            raise self.errors[node]
        return Piece(b"words\n", 6)


@contextlib.contextmanager
def read(folder, nodes: Nodes):
    logs = LiveLogs(
        folder, lambda: contextlib.nullcontext(Master()), dict, lambda log: log.instance, nodes
    )
    try:
        yield logs
    finally:
        logs.close()


NOT_BEGUN = urllib.error.HTTPError("http://n3:8042", 404, "Not Found", None, io.BytesIO())
REFUSED = urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))
DENIED = DeniedError("n2:8042 asks for Kerberos: no ticket")


def test_a_log_whose_node_does_not_show_it_is_named_with_the_reason(tmp_path):
    with read(
        tmp_path, Nodes({"n1:8042": REFUSED, "n2:8042": DENIED, "n3:8042": NOT_BEGUN})
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
