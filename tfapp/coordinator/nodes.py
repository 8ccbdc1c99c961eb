"""Asks an engine's module (Job.nodes) about containers: what the engine's exit message means, the
last lines of a log, and what a container waits for, where the master does not tell. Other threads
than the loop's do it, because a lost node, or a busy master, is noticed only after seconds."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from tfapp import threads
from tfapp.contract.job import Job
from tfapp.contract.names import NODES, QUEUE
from tfapp.coordinator.policy.state import State, unheard
from tfapp.coordinator.record import Attempt
from tfapp.errors import RefusedError, UnavailableError, UnreachableError
from tfapp.frozen import frozen
from tfapp.protocol.connection import LIVE_STATES, Connection, ContainerReport

LOG_LIMIT = 5.0  # seconds for all logs of one call
THREADS = 64
ASK_AFTER = 5.0  # seconds in which most runners are heard of: nothing holds them back
ASK_EVERY = 2.0  # seconds between two questions what containers wait for
LOOK_EVERY = 60.0  # seconds between two questions which nodes there are


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

    def waits(self, state: str, queue: str) -> tuple[str, str]:
        """What a container waits for that is in `state` (Skein's word), and its kind (QUEUE,
        GRANTED: contract.names). Only a module has it whose engine's master does not tell."""

    def unfit(self, job: Job, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The components of which no node that works could hold a container, each with the words of
        why; it may take seconds. UnavailableError if that is not known now. Only a module has it
        that has `waits`."""


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


def unfit(
    nodes: Nodes | None, environ: Mapping[str, str], job: Job
) -> Callable[[], Mapping[str, str]]:
    """What asks for the components that no node could hold: see `Nodes.unfit`."""
    ask = getattr(nodes, "unfit", None)
    return functools.partial(ask, job, environ) if ask else dict


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


@frozen
class Asked:
    """What the containers wait for that were requested: container -> words and kind."""

    waits: Mapping[str, tuple[str, str]]


class Waits:
    """Asks the master what the containers wait for that were requested, where it does not tell by
    itself, and `unfit` whether any node could hold those that wait for a queue. `deliver` is called
    from another thread, once for each question, within the deadlines of two calls of `connection`
    and one of `unfit`."""

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        deliver: Callable[[Asked], None],
        nodes: Nodes | None,
        unfit: Callable[[], Mapping[str, str]] = dict,
    ):
        self._connection = connection
        self._clock = clock
        self._deliver = deliver
        self._words = getattr(nodes, "waits", None)
        self._unfit = unfit
        self._without_nodes: Mapping[str, str] = {}  # component -> why, as it was last known
        self._look_at = -math.inf
        self._queue = ""
        self._next = -math.inf  # when it may be asked; infinity while it is

    def look(self, state: State) -> None:
        """Asks if a container was requested a while ago and its runner was not heard of; returns
        at once."""
        waiting = unheard(state) if self._words is not None else ()
        asked = max((i.asked for i in waiting), default=math.inf)
        if self._clock() < max(self._next, state.began + ASK_AFTER, asked + ASK_AFTER):
            return
        self.told()
        with contextlib.suppress(OSError):  # no thread: the next time
            threads.start("tfapp-waits", self._ask, self._words)
            self._next = math.inf

    def told(self) -> None:
        """The answer has arrived: the next question has time."""
        self._next = self._clock() + ASK_EVERY

    def _ask(self, words: Callable[[str, str], tuple[str, str]]) -> None:
        found: Mapping[str, tuple[str, str]] = {}
        try:
            self._queue = self._queue or self._connection.queue()
            containers = self._connection.containers(LIVE_STATES)
            told = {c: words(c.state, self._queue) for c in containers}
            if any(kind == QUEUE for _, kind in told.values()):
                self._look()
            found = {c.id: self._known(c.service, *waits) for c, waits in told.items()}
        except (UnreachableError, RefusedError):
            pass  # no news: the loop finds out by itself if the master is gone
        finally:
            self._deliver(Asked(found))

    def _look(self) -> None:
        if self._clock() < self._look_at:
            return
        with contextlib.suppress(UnavailableError):  # what was known holds until there is more
            self._without_nodes = self._unfit()
        self._look_at = self._clock() + LOOK_EVERY

    def _known(self, component: str, text: str, kind: str) -> tuple[str, str]:
        """No queue is waited for where no node could hold the container."""
        why = self._without_nodes.get(component, "") if kind == QUEUE else ""
        return (f"{text}: {why}", NODES) if why else (text, kind)
