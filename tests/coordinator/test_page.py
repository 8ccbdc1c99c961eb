"""The page that the coordinator serves where its master leads browsers to it."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence

import pytest

from tests.page.applications import restarted
from tests.page.test_stacks import told
from tfapp.contract.encoding import encode
from tfapp.contract.names import PAGE_ROUTE
from tfapp.coordinator.nodes import leads_to_pages, load
from tfapp.coordinator.page import (
    ASK_EVERY,
    MAX_LOG,
    MAX_SEARCHED,
    NOT_TOLD,
    READ_EVERY,
    LogReader,
    shown,
)
from tfapp.engines.yarn import nodes as of_yarn
from tfapp.errors import RefusedError, UnreachableError
from tfapp.page.document import PageAddress, PageLog
from tfapp.protocol.connection import ContainerReport


class Connection:
    """A master with the containers of two instances of three."""

    def __init__(self, refuses: bool = False):
        self.pages: dict[str, str] = {}
        self.asked = 0
        self.refuses = refuses

    def containers(self, states: Sequence[str]) -> tuple[ContainerReport, ...]:
        self.asked += 1
        if self.refuses:
            raise UnreachableError("it is busy")
        assert {"RUNNING", "FAILED"} <= set(states)
        begun = (
            ContainerReport(
                f"worker_{n}", "worker", "RUNNING", "h", "", f"container_{n}", f"n{n}:1"
            )
            for n in range(2)
        )
        return (*begun, ContainerReport("worker_2", "worker", "REQUESTED", "", ""))

    def values(self, prefix: str) -> tuple[bytes, ...]:
        if self.refuses:
            raise UnreachableError("it is busy")
        return (encode(told("worker/0", 12)),)

    def add_page(self, route: str, target: str, title: str) -> None:
        if self.refuses:
            raise RefusedError("no")
        self.pages[route] = target


class Nodes:
    """One shows logs to everybody. `read`: which ones were read."""

    log_page = staticmethod(of_yarn.log_page)

    def __init__(self) -> None:
        self.read: list[tuple] = []

    def read_end(self, node: str, container: str, file: str, length: int) -> str:
        self.read.append((node, container, file, length))
        return "line 1\nline 2\n" if node == "n0:1" else ""


def serving(connection: Connection):
    return shown(restarted, connection, Nodes(), "ada")  # type: ignore[arg-type]


def fetched(url: str, **headers: str) -> bytes:
    # As the master's proxy asks, for another host.
    request = urllib.request.Request(url, headers={"Host": "manager:8088", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def test_it_is_there_as_long_as_the_application():
    connection = Connection()
    with serving(connection):
        address = connection.pages[PAGE_ROUTE]
        assert b"<title>app" in fetched(address)
        first = json.loads(fetched(f"{address}data.json?seen="))
        assert first["document"]["name"] == "app"
        assert first["document"]["log_names"] == ["worker/0", "worker/1", "worker/2"]
        assert fetched(f"{address}data.json?seen={first['seen']}") == b"null"
        groups = json.loads(fetched(f"{address}ws/v1/slider/publisher/exports"))["exports"]
        assert list(groups) == ["worker"]
        assert b"tfapp_generation{" in fetched(f"{address}metrics")
        for path in ("other", "events", "ws/v1/slider/publisher/exports/other"):
            with pytest.raises(urllib.error.HTTPError, match="404") as raised:
                fetched(f"{address}{path}", Accept="text/html,*/*;q=0.8")
            assert b"<title>Not found" in raised.value.read()
        token = address.rstrip("/").rpartition("/")[2]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetched(address.replace(token, "guess"))
    with pytest.raises(OSError):
        fetched(address)


def test_the_application_goes_on_without_it():
    ran = []
    with serving(Connection(refuses=True)):
        ran.append(1)
    assert ran


def test_only_yarn_s_master_leads_there():
    assert leads_to_pages(load("tfapp.engines.yarn.nodes"))
    assert not leads_to_pages(Nodes())  # type: ignore[arg-type]


def test_logs_are_those_that_nodes_show_and_all_have_a_link():
    connection, nodes, now = Connection(), Nodes(), [100.0]
    logs = LogReader(connection, nodes, "ada", lambda: now[0])  # type: ignore[arg-type]
    first, second, third = restarted().instances
    link = PageAddress("log", "worker/0", "//n0:1/node/containerlogs/container_0/ada")
    assert logs.of(first) == ((link,), (PageLog("worker/0", "line 1\nline 2"),))
    (link,), (log,) = logs.of(second)
    assert link.address == "//n1:1/node/containerlogs/container_1/ada"
    assert (log.text, log.missing) == ("", NOT_TOLD)
    assert logs.of(third) == ((), (PageLog("worker/2", "", "its container has not begun"),))
    logs.of(first)
    assert len(nodes.read) == 2, "the same is not read again at once"
    assert nodes.read[0] == ("n0:1", "container_0", "worker.log", MAX_LOG)
    now[0] += READ_EVERY
    logs.of(first)
    assert len(nodes.read) == 3
    assert connection.asked == 1
    now[0] += ASK_EVERY
    logs.of(third)
    assert connection.asked == 2


def test_it_shows_the_stacks_taken_last_and_takes_none():
    connection = Connection()
    with serving(connection):
        address = connection.pages[PAGE_ROUTE]
        groups = json.loads(fetched(f"{address}stacks.json"))["groups"]
        assert [group["instances"] for group in groups] == [["worker/0"]]
        assert json.loads(fetched(f"{address}data.json"))["document"]["can"] == ["last stacks"]
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(f"{address}stacks.json", b"", timeout=60)
        connection.refuses = True
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetched(f"{address}stacks.json")


def test_the_end_of_a_log_is_searched():
    connection, nodes = Connection(), Nodes()
    with shown(restarted, connection, nodes, "ada"):  # type: ignore[arg-type]
        address = connection.pages[PAGE_ROUTE]
        for which, lines in (("worker/0", ["line 2"]), ("worker/2", []), ("other/0", [])):
            found = json.loads(fetched(f"{address}search.json?log={which}&find=E%202"))
            assert [one["lines"] for one in found["found"]] == [lines] * bool(lines)
    assert [read[3] for read in nodes.read] == [MAX_SEARCHED]


def test_a_master_that_does_not_answer_leaves_the_page_without_logs():
    logs = LogReader(Connection(refuses=True), Nodes(), "ada")  # type: ignore[arg-type]
    assert logs.of(restarted().instances[0])[1][0].missing == "its container has not begun"
