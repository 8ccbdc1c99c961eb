"""The page of the application that the coordinator serves, on engines whose master forwards
browsers to it: on YARN through the proxies of the ResourceManager and of Skein, which admit the
users in acl.ui.users."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from tfapp.contract.names import FINAL_STATES, PAGE_ROUTE, STACKS_PREFIX
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.coordinator import openmetrics
from tfapp.coordinator.nodes import Nodes
from tfapp.errors import RefusedError, UnreachableError
from tfapp.page import document, registry, server, stacks
from tfapp.page.document import PageAddress, PageLog
from tfapp.page.server import PageAnswer, PageRequest
from tfapp.protocol.connection import FINISHED_STATES, LIVE_STATES, Connection, ContainerReport

ASK_EVERY = 5.0  # least seconds between two requests to the master for the list of containers
READ_EVERY = 2.0  # least seconds between two readings of a log
MAX_LOG = 32 * 1024  # bytes of a log that are shown
MAX_SEARCHED = 1 << 20  # bytes of a log that are searched
NOT_TOLD = "its node does not tell yet, or asks for a login: the link above leads there"


@contextlib.contextmanager
def shown(
    newest: Callable[[], ApplicationStatus], connection: Connection, nodes: Nodes, user: str
) -> Iterator[None]:
    """Serves the page of the status that `newest` returns, as long as the `with` block runs. If it
    cannot be served, or the master does not take it, there is no page; nothing depends on it.
    `nodes`: reads the logs of containers, which `user` runs."""
    logs = LogReader(connection, nodes, user)
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, RefusedError, UnreachableError):
            pages = server.PageServer(
                lambda asked: answer(asked, newest(), logs, connection), proxied=True
            )
            held.enter_context(pages.serving())
            connection.add_page(PAGE_ROUTE, pages.address, "tfapp")
        yield


def answer(
    request: PageRequest, status: ApplicationStatus, logs: LogReader, connection: Connection
) -> PageAnswer:
    """Answers a request: the page at "", its document at "data.json", the numbers for Prometheus
    at "metrics", a search in a log at "search.json", the stacks taken last at "stacks.json", and
    the paths of Slider's registry."""
    about = document.About(status.name, live=status.state not in FINAL_STATES, can=(stacks.LAST,))
    if request.path in ("", "data.json"):
        instances = {instance.instance: instance for instance in status.instances}
        asked = request.query.get("log", "") or next(iter(instances), "")
        links, read = logs.of(instances[asked]) if asked in instances else ((), ())
        made = document.of_application(about, status, links, read)
        return server.shown(made, request, time.time())
    if request.path == document.SEARCH:
        whose = request.query.get("log", "")
        named = [one for one in status.instances if one.instance == whose]
        words = request.query.get("find", "")
        return server.data(document.found(map(logs.to_search, named), words))
    if request.path == "metrics":
        return PageAnswer(openmetrics.text(status), openmetrics.TYPE)
    if request.path == stacks.PATH:
        try:
            told = connection.values(STACKS_PREFIX)
        except (RefusedError, UnreachableError) as error:
            return server.failed(503, error.message)
        return server.data(stacks.shown(stacks.last_taken(told, status)))
    return server.data(registry.published(request.path, status, ""))


class LogReader:
    """Reads the logs of instances from their nodes. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        nodes: Nodes,
        user: str,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._connection, self._nodes, self._user, self._clock = connection, nodes, user, clock
        self._lock = threading.Lock()
        self._containers: dict[str, ContainerReport] = {}  # by id; only those that nodes know
        self._asked = float("-inf")
        self._read: dict[str, tuple[float, str]] = {}  # container -> time of reading, last lines
        self._searching = threading.Lock()  # one at a time

    def of(self, instance: InstanceStatus) -> tuple[tuple[PageAddress, ...], tuple[PageLog]]:
        """The address of the node's page with the logs of an instance's container, and the last
        lines of its log, or the reason why they are missing."""
        with self._lock:
            container = self._container(instance)
            if container is None:
                return (), (PageLog(instance.instance, "", "its container has not begun"),)
            then, text = self._read.get(container.id, (float("-inf"), ""))
            due = self._clock() >= then + READ_EVERY
            if due:  # the others show what was read last, while a node may be silent
                self._read[container.id] = self._clock(), text
        if due:
            file = f"{container.service}.log"
            text = self._nodes.read_end(container.node, container.yarn_id, file, MAX_LOG)
            with self._lock:
                self._read[container.id] = self._clock(), text
        shown = document.last_lines(text.encode())
        page = self._nodes.log_page(container.node, container.yarn_id, self._user)
        return (
            (PageAddress("log", instance.instance, page),),
            (PageLog(instance.instance, shown, "" if shown else NOT_TOLD),),
        )

    def to_search(self, instance: InstanceStatus) -> tuple[str, bytes, int]:
        """The end of the log of an instance, as `document.found` takes it."""
        with self._lock:
            container = self._container(instance)
        data = b""
        if container is not None:
            file = f"{container.service}.log"
            with self._searching:
                text = self._nodes.read_end(container.node, container.yarn_id, file, MAX_SEARCHED)
            data = text.encode()
        return instance.instance, data, len(data)

    def _container(self, instance: InstanceStatus) -> ContainerReport | None:
        known = instance.container in self._containers
        if instance.container and not known and self._clock() >= self._asked + ASK_EVERY:
            self._asked = self._clock()
            with contextlib.suppress(RefusedError, UnreachableError):
                found = self._connection.containers((*LIVE_STATES, *FINISHED_STATES))
                self._containers = {one.id: one for one in found if one.yarn_id}
            self._asked = self._clock()  # it may have taken long
        return self._containers.get(instance.container)
