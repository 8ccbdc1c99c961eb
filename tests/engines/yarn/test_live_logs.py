"""Reading a log from its end while it grows, and what of an application cannot be read."""

import contextlib
import dataclasses
import io
import json
import threading
import time
import tracemalloc
import urllib.error

import pytest

from tests.engines.yarn.test_nodes import FRAME
from tests.served import Quiet, served
from tfapp.engines.base import LogFile
from tfapp.engines.yarn.live_logs import ATTEMPTS, MARGIN, LiveLogs, NodeLog
from tfapp.engines.yarn.nodes import LogPiece
from tfapp.engines.yarn.web import DeniedError, Web
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.protocol.connection import ContainerReport


class Node(Quiet):
    """A NodeManager with the log of one container, which is `growth` bytes longer at each look, and
    has no times. What was asked is in `asked`."""

    length = growth = 0
    asked: list[int] = []

    def do_GET(self):
        if "worker.log?" not in self.path:
            self.send_error(404)
            return
        last, length = int(self.path.rpartition("-")[2]), Node.length
        Node.asked.append(last)
        Node.length += Node.growth
        self.send_response(200)
        self.end_headers()
        before, _, after = (FRAME % (length, b"|")).partition(b"|")
        self.wfile.write(before)
        for offset in range(max(length - last, 0), length, len(PIECE)):
            self.wfile.write(PIECE[: length - offset])
        self.wfile.write(after)


PIECE = bytes(range(256)) * 256
MIB = 1 << 20


@contextlib.contextmanager
def copied(tmp_path, length: int, have: int = 0, growth: int = 0):
    """The copy of a log, of which `have` bytes were there; and what was asked."""
    source = NodeLog("worker/0", "", "container_1", "worker.log")
    Node.length, Node.growth, Node.asked = length, growth, []
    path = tmp_path / "container_1" / "worker.log"
    path.parent.mkdir()
    path.write_bytes(PIECE[:have])
    with served(Node) as address, read(tmp_path, Web({})) as logs:
        logs._copy(dataclasses.replace(source, node=address))
        yield path


@pytest.mark.parametrize(
    ("length", "have"),
    [(0, 0), (10, 0), (10, 4), (10, 10), (3 * MARGIN, 0), (3 * MARGIN, MARGIN), (5 * MIB, 7 << 8)],
)
def test_exactly_what_is_new_is_read(tmp_path, length, have):
    with copied(tmp_path, length, have) as path:
        assert path.read_bytes() == (PIECE * (length // len(PIECE) + 1))[:length]
        assert len(Node.asked) == 1 + (length - have > MARGIN)


@pytest.mark.parametrize(("growth", "looks"), [(256, 2), (MARGIN, 2), (2 * MARGIN, 3)])
def test_nothing_is_left_out_of_a_log_that_grows_meanwhile(tmp_path, growth, looks):
    with copied(tmp_path, 4 * MARGIN, 256, growth) as path:
        assert path.read_bytes() == PIECE * 4
        assert len(Node.asked) == looks


def test_a_log_that_is_shorter_than_the_copy_adds_nothing(tmp_path):
    with copied(tmp_path, 10, 20) as path:
        assert path.read_bytes() == PIECE[:20]


def test_a_log_that_grows_too_fast_is_left_for_the_next_time(tmp_path):
    with copied(tmp_path, 4 * MARGIN, 0, 5 * MARGIN << 2 * (ATTEMPTS - 1)) as path:
        assert path.read_bytes() == b""
        assert len(Node.asked) == 1 + ATTEMPTS


def test_a_large_log_is_never_held_whole(tmp_path):
    tracemalloc.start()
    try:
        with copied(tmp_path, 48 * MIB) as path:
            assert path.stat().st_size == 48 * MIB
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


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

    def read_log(self, node: str, container: str, file: str, last: int) -> LogPiece:
        if node in self.errors:
            raise self.errors[node]
        if file == "tfapp-returned.json" and node in self.nothing_returned:
            raise NOT_FOUND
        return LogPiece(b"words\n", 6)


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


class Growing:
    """Nodes whose logs grow while they are read, which takes a moment."""

    def __init__(self):
        self.whole = b""
        self._writing = threading.Lock()

    def read_log(self, node: str, container: str, file: str, last: int) -> LogPiece:
        if file != "worker.log":
            raise NOT_FOUND
        with self._writing:
            self.whole += b"line %d\n" % len(self.whole)
            whole = self.whole
        time.sleep(0.002)
        return LogPiece(whole[-last:], len(whole))


def test_two_commands_that_copy_one_log_double_and_lose_nothing(tmp_path):
    """In one process here: the lock is that of an open file."""
    nodes = Growing()
    with read(tmp_path, nodes) as one, read(tmp_path, nodes) as other:
        both = [
            threading.Thread(target=lambda logs=logs: [logs.copy() for _ in range(25)])
            for logs in (one, other)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        copied = [log.path.read_bytes() for log in one.files()]
    assert copied and all(nodes.whole.startswith(text) and text for text in copied)
