"""Copies the logs of a running application from the web pages of the NodeManagers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import threading
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tfapp import threads
from tfapp.contract.log_times import times_path
from tfapp.contract.names import INSTANCE_FILE, KEY_STATUS, RETURNED_FILE
from tfapp.contract.status import ApplicationStatus
from tfapp.disk import locked, make_private, write_atomically, writing
from tfapp.engines.base import LogFile
from tfapp.engines.yarn.nodes import LogPiece, reason_of
from tfapp.engines.yarn.web import DeniedError, Web
from tfapp.errors import TfappError, UnavailableError
from tfapp.frozen import frozen
from tfapp.protocol.connection import FINISHED_STATES, LIVE_STATES, Connection, ContainerReport

COPY_EVERY = 1.0  # seconds
IDLE_LIMIT = 60.0  # seconds after the last call of `files` in which logs are still copied
MARGIN = 1 << 16  # bytes that a log may grow by while it is read
ATTEMPTS = 5
LOCK_LIMIT = 10.0  # seconds for another command that copies the same logs
NOT_FOUND = 404
RECORD = 2 << 20  # bytes that a record of what was returned has at most
TRIES = 5  # to get the log of a finished container, whose node may be gone

COORDINATOR_LOG = "application.driver.log"
MASTER_LOG = "application.master.log"


@frozen
class NodeLog:
    """A log on a node. `node`: the address of its NodeManager's pages, host:port. `finished`: its
    container has ended. `lost`: its node is lost."""

    instance: str
    node: str
    container: str
    file: str
    finished: bool = False
    lost: bool = False


class LiveLogs:
    """The logs of one running application, copied below `folder` repeatedly, as long as `files` is
    called now and then, until `close`. `connect` opens a connection to its master. `facts` returns
    the ResourceManager's data (Web.application)."""

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], Connection],
        facts: Callable[[], dict[str, Any]],
        order: Callable[[LogFile], tuple[Any, ...]],
        web: Web,
    ):
        self._folder = folder
        self._connect = connect
        self._facts = facts
        self._order = order
        self._web = web
        self.status: ApplicationStatus | None = None  # as published, at the last look
        self._denied = ""  # why a node has shown none
        self._shown = False  # whether any node has shown one
        self._lock = threading.Lock()
        self._files: dict[Path, LogFile] = {}
        self._instances: dict[str, str] = {}  # by the master's id of a container
        # Containers whose instance, or record, was not to be known at the last look.
        self._unseen = 0
        self._tries: dict[str, int] = {}  # by YARN's id of a finished container
        self._own: tuple[NodeLog, ...] = ()
        self._ended = threading.Event()
        self._asked = 0.0  # when `files` was last called
        self._thread: threading.Thread | None = None

    def files(self) -> tuple[LogFile, ...]:
        """The logs that exist now. The first call, and one after a long time, returns when all of
        them are copied. UnavailableError if the nodes do not show them to the user."""
        self._asked = time.monotonic()
        if self._thread is None:
            self.copy()
            self._thread = threads.keep("tfapp-logs", self._go_on)
        if self._denied and not self._shown:
            raise UnavailableError(
                f"the logs cannot be read while it runs: {self._denied}",
                "`tfapp logs` shows them after its end; until then, `yarn logs -applicationId ID`.",
            )
        return tuple(sorted(self._files.values(), key=self._order))

    def copy(self) -> None:
        """Copies new data. A log that is not available now is tried again at the next call."""
        with self._lock:
            self._copy_all(self._look())

    def copy_at_end(self) -> bool:
        """As `copy`, but copies records of return values first: the master is about to end. Returns
        whether every container was examined."""
        with self._lock:
            sources = self._look()
            _, whole = self._records(sources)
            self._copy_all(sources)
            return whole

    def _look(self) -> tuple[NodeLog, ...]:
        try:
            return tuple(self._sources())
        except TfappError:
            return ()  # The master is not up yet, or ends: the next one who asks it says so.

    def _copy_all(self, sources: Iterable[NodeLog]) -> None:
        # Nodes that do not answer, and why: they are not asked twice in one go.
        mute: dict[str, str] = {}
        for source in sources:
            if self._tries.get(source.container, 0) < TRIES:
                self._try(source, mute)

    def _try(self, source: NodeLog, mute: dict[str, str]) -> None:
        tries = self._tries.get(source.container, 0) + 1
        if source.node not in mute:
            try:
                self._copy(source)
                tries, self._shown = TRIES, True
            except urllib.error.HTTPError:
                pass  # it is not begun
            except OSError as error:
                mute[source.node] = _why(source, error)
                if isinstance(error, DeniedError):
                    self._denied = str(error)
        if source.node in mute:
            path = self._path(source)
            self._files[path] = LogFile(source.instance, path, mute[source.node])
        if source.finished:
            self._tries[source.container] = tries

    def returned(self) -> tuple[LogFile, ...]:
        """The records of return values, copied now; those of older containers of an instance come
        first. `missing` is set if a node does not answer."""
        with self._lock:
            found, _ = self._records(self._look())
            return found

    def _records(self, sources: Iterable[NodeLog]) -> tuple[tuple[LogFile, ...], bool]:
        """The records of `sources`, and whether every container was examined."""
        mute: dict[str, str] = {}
        own = [source for source in sources if "/" in source.instance]
        records = [self._record(source, mute) for source in own]
        found = sorted((record for record in records if record), key=self._order)
        return tuple(found), bool(own) and not mute and not self._unseen

    def _record(self, source: NodeLog, mute: dict[str, str]) -> LogFile | None:
        """The record of a container; None if there is none. `mute`: see `_try`."""
        source = dataclasses.replace(source, file=RETURNED_FILE)
        path = self._path(source)
        if source.node not in mute:
            try:
                piece = self._read(source, RECORD)
            except OSError as error:
                if not isinstance(error, urllib.error.HTTPError) or error.code != NOT_FOUND:
                    mute[source.node] = _why(source, error)
                elif self._has_logs(source):
                    path.unlink(missing_ok=True)  # its program has begun again
                else:  # it is not begun, or YARN has moved its logs away
                    self._unseen += 1
            else:
                with writing(path):
                    self._make_folder(source)
                    write_atomically(path, piece.data)
        if path.exists():
            return LogFile(source.instance, path)
        return LogFile(source.instance, path, mute[source.node]) if source.node in mute else None

    def _has_logs(self, source: NodeLog) -> bool:
        """Whether a runner has started in the container, so that its log folder exists on the
        node."""
        try:
            self._web.read_log(source.node, source.container, INSTANCE_FILE, MARGIN)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._ended.set()

    def _go_on(self) -> None:
        while not self._ended.wait(COPY_EVERY) and time.monotonic() < self._asked + IDLE_LIMIT:
            self.copy()
        self._thread = None

    def _sources(self) -> Iterator[NodeLog]:
        with self._connect() as connection:
            status = connection.get(KEY_STATUS)
            containers = connection.containers((*LIVE_STATES, *FINISHED_STATES))
        if status is not None:
            self.status = ApplicationStatus.from_dict(json.loads(status))
            instances = self.status.instances
            self._instances.update((i.container, i.instance) for i in instances if i.container)
        self._unseen = 0
        for container in containers:
            instance = self._instance(container)
            self._unseen += bool(container.yarn_id and not instance)
            if instance and container.yarn_id:
                yield NodeLog(
                    instance,
                    container.node,
                    container.yarn_id,
                    f"{container.service}.log",
                    container.state in FINISHED_STATES,
                    reason_of(container.message) == "node-lost",
                )
        yield from self._masters()

    def _instance(self, container: ContainerReport) -> str:
        """The instance of a container; "" if unknown. The status does not have earlier containers
        of an instance: their runners have recorded the instance beside the log."""
        known = self._instances.get(container.id, "")
        if known or container.state not in FINISHED_STATES:
            return known
        tries = self._tries.get(container.yarn_id, 0)
        if not container.yarn_id or tries >= TRIES:
            return ""
        try:
            piece = self._web.read_log(container.node, container.yarn_id, INSTANCE_FILE, MARGIN)
        except OSError:
            self._tries[container.yarn_id] = tries + 1
            return ""
        instance = self._instances[container.id] = piece.data.decode(errors="replace").strip()
        return instance

    def _masters(self) -> tuple[NodeLog, ...]:
        """The log of the container of master and coordinator."""
        if not self._own:
            try:
                facts = self._facts()
                node, container = facts["amHostHttpAddress"], facts["amContainerLogs"]
            except (OSError, KeyError, UnavailableError):
                return ()
            container = container.rstrip("/").rsplit("/", 2)[-2]
            self._own = (
                NodeLog("coordinator", node, container, COORDINATOR_LOG),
                NodeLog("master", node, container, MASTER_LOG),
            )
        return self._own

    def _read(self, source: NodeLog, last: int) -> LogPiece:
        return self._web.read_log(source.node, source.container, source.file, last)

    def _path(self, source: NodeLog) -> Path:
        return self._folder / source.container / source.file

    def _copy(self, source: NodeLog) -> None:
        path = self._path(source)
        if path.exists():
            self._files[path] = LogFile(source.instance, path)
        with contextlib.ExitStack() as stack:
            with writing(self._folder):
                make_private(self._folder)
                lock = locked(self._folder / ".lock", LOCK_LIMIT)
            if stack.enter_context(lock):
                self._append(source, path)

    def _append(self, source: NodeLog, path: Path) -> None:
        """Appends what the copy lacks. Of several commands that copy a log one at a time may: what
        two append would be doubled."""
        piece = self._read(source, MARGIN)
        with writing(path):
            self._make_folder(source)
        # First: a reader finds the times of all that is there. Those of the master's own log are in
        # its lines.
        have = path.stat().st_size if path.exists() else 0
        if piece.length > have and source.file != MASTER_LOG:
            times = times_path(path)
            with contextlib.suppress(OSError):  # it has none, or they come with the next lines
                last = dataclasses.replace(source, file=times.name)
                self._extend(last, times, self._read(last, MARGIN))
        self._extend(source, path, piece)
        self._files[path] = LogFile(source.instance, path)

    def _extend(self, source: NodeLog, path: Path, end: LogPiece) -> None:
        """Appends to a copy what it lacks of a log whose end is `end`; nothing if the log grows too
        fast to be read now."""
        with writing(path), path.open("ab") as copy:
            have = copy.tell()
        missing = end.length - have
        if missing <= len(end.data):
            append(path, end.data[len(end.data) - max(missing, 0) :])
            return
        place = source.node, source.container, source.file
        for attempt in range(ATTEMPTS):
            margin = MARGIN * 4**attempt
            write = functools.partial(append, path)
            if self._web.copy_log(*place, (have, end.length), margin, write):
                return

    def _make_folder(self, source: NodeLog) -> None:
        """Creates the folder of a copy, with a file that names the instance."""
        folder = make_private(self._path(source).parent)
        name = folder / INSTANCE_FILE
        if "/" in source.instance and not name.exists():
            write_atomically(name, source.instance.encode())


def _why(source: NodeLog, error: OSError) -> str:
    if isinstance(error, DeniedError):
        return str(error)
    if source.lost:
        host = source.node.rpartition(":")[0]
        return f"its node {host} is lost, and its log is there; YARN gathers it if it comes back"
    reason = getattr(error, "reason", error)  # urllib's
    return f"{source.node} does not answer: {getattr(reason, 'strerror', None) or reason}"


def append(path: Path, data: bytes) -> None:
    """UnavailableError if that fails."""
    with writing(path), path.open("ab") as copy:
        copy.write(data)
