"""Asks an engine's module (Job.nodes) about ended containers: what the engine's exit message means,
and the last lines of a log, which the master does not know. Other threads than the loop's read the
logs, because a lost node is noticed only after seconds."""

from __future__ import annotations

import contextlib
import importlib
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from tfapp import threads
from tfapp.contract.job import Job
from tfapp.coordinator.record import Attempt
from tfapp.frozen import frozen
from tfapp.protocol.connection import ContainerReport

LOG_LIMIT = 5.0  # seconds for all logs of one call
THREADS = 64


class Nodes(Protocol):
    """The interface of such a module."""

    def reason_of(self, message: str) -> str:
        """The reason (contract.exit.REASONS) that an exit message means; "" for none."""

    def read_end(self, node: str, container: str, file: str, length: int = ...) -> str:
        """The last `length` bytes of the log `file` of `container` (the engine's id), from the node
        whose pages are at `node` (host:port); "" if the node does not give it. Called from many
        threads."""

    def log_page(self, node: str, container: str, user: str) -> str:
        """The address of the node's page with the logs of `container`, which `user` runs. It has no
        scheme: that is the one of the engine's other pages."""


def load(module: str) -> Nodes | None:
    """The module of this name; None for ""."""
    return cast(Nodes, importlib.import_module(module)) if module else None


def leads_to_pages(nodes: Nodes) -> bool:
    """Whether the engine's master leads browsers to a page that the coordinator serves."""
    return getattr(nodes, "LEADS_TO_PAGES", False)


def attempt(nodes: Nodes | None, environ: Mapping[str, str], job: Job) -> Attempt | None:
    """The present attempt of an application whose engine starts another master after a loss; None
    for any other."""
    make = getattr(nodes, "attempt", None) if job.attempts > 1 else None
    return cast(Attempt, make(environ, job.class_path)) if make else None


@frozen
class Ends:
    """The last lines of logs that were read: container -> text, "" for none."""

    of: Mapping[str, str]


class NodeLogs:
    """Reads logs in other threads. `deliver` is called from another thread, once for each call of
    `ask`, at most LOG_LIMIT seconds later. Without `nodes` no log can be read."""

    def __init__(self, deliver: Callable[[Ends], None], nodes: Nodes | None):
        self._deliver = deliver
        self._nodes = nodes

    def can_tell(self, container: ContainerReport) -> bool:
        """Whether the log of an ended container should be read: its reason is not known. (With a
        known reason, such as a lost node, the log is not needed or not there.)"""
        return self._nodes is not None and not container.reason

    def ask(self, containers: Sequence[ContainerReport]) -> None:
        """Begins to read the logs of `containers`; returns at once."""
        # Imported here because two threads must not import it at the same time:
        # https://github.com/python/cpython/issues/91351
        importlib.import_module("urllib.request")
        # Daemon threads: the coordinator does not wait for them at its end.
        threads.start_surely("tfapp-logs", self._gather, self._nodes, tuple(containers))

    def _gather(self, nodes: Nodes, containers: Sequence[ContainerReport]) -> None:
        deadline = time.monotonic() + LOG_LIMIT
        left: queue.SimpleQueue[ContainerReport] = queue.SimpleQueue()
        ends: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        for container in containers:
            left.put(container)

        def work() -> None:
            while time.monotonic() < deadline:
                try:
                    container = left.get_nowait()
                except queue.Empty:
                    return
                node, log = container.node, f"{container.service}.log"
                ends.put((container.id, nodes.read_end(node, container.yarn_id, log)))

        for _ in range(min(len(containers), THREADS)):
            with contextlib.suppress(OSError):  # no thread: others read, or it stays unread
                threads.start("tfapp-log", work)
        found = dict.fromkeys((container.id for container in containers), "")
        for _ in containers:
            try:
                found.update([ends.get(timeout=max(deadline - time.monotonic(), 0.0))])
            except queue.Empty:
                break
        self._deliver(Ends(found))
