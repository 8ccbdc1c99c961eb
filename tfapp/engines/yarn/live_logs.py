"""Copies of the logs of a running application, which NodeManagers show over HTTP."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tfapp.contract import KEY_STATUS, ApplicationStatus
from tfapp.engines.base import LogFile
from tfapp.engines.disk import make_private, writing
from tfapp.engines.yarn import web
from tfapp.errors import TfappError
from tfapp.skein_calls import FINISHED_STATES, LIVE_STATES, Connection

COPY_EVERY = 1.0  # seconds
MARGIN = 1 << 16  # bytes that a log may grow by while it is read
ATTEMPTS = 5

COORDINATOR_LOG = "application.driver.log"
MASTER_LOG = "application.master.log"


@dataclasses.dataclass(frozen=True)
class Source:
    """A log on a node. `node`: address of its NodeManager's pages, host:port."""

    instance: str
    node: str
    container: str
    file: str


class LiveLogs:
    """The logs of one running application, copied below `folder` again and again from the first
    call of `files` until `close`. `connect` opens a connection to its master, `facts` gives the
    ResourceManager's own (tfapp.engines.yarn.web.application)."""

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], Connection],
        facts: Callable[[], dict],
        order: Callable[[LogFile], tuple],
    ):
        self._folder = folder
        self._connect = connect
        self._facts = facts
        self._order = order
        self._lock = threading.Lock()
        self._files: dict[Path, LogFile] = {}
        self._own: tuple[Source, ...] = ()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def files(self) -> tuple[LogFile, ...]:
        """Those that exist by now. The first call returns when they are all copied."""
        if self._thread is None:
            self.copy()
            self._thread = threading.Thread(target=self._go_on, name="tfapp-logs", daemon=True)
            self._thread.start()
        return tuple(sorted(self._files.values(), key=self._order))

    def copy(self) -> None:
        """Copies what is new. A log that cannot be had now is tried again next time."""
        with self._lock:
            try:
                sources = tuple(self._sources())
            except TfappError:
                return  # The master is not up yet, or ends: the next one who asks it says so.
            for source in sources:
                self._copy(source)

    def close(self) -> None:
        """Ends the copying."""
        self._ended.set()

    def _go_on(self) -> None:
        while not self._ended.wait(COPY_EVERY):
            self.copy()

    def _sources(self) -> Iterator[Source]:
        with self._connect() as connection:
            status = connection.get(KEY_STATUS)
            containers = connection.containers((*LIVE_STATES, *FINISHED_STATES))
        instances = {}
        if status is not None:
            found = ApplicationStatus.from_dict(json.loads(status)).instances
            instances = {i.container: i.instance for i in found}
        for container in containers:
            if container.id in instances and container.yarn_id:
                yield Source(
                    instances[container.id],
                    container.node,
                    container.yarn_id,
                    f"{container.service}.log",
                )
        yield from self._masters()

    def _masters(self) -> tuple[Source, ...]:
        """Of the container in which master and coordinator are."""
        if not self._own:
            try:
                facts = self._facts()
                node, container = facts["amHostHttpAddress"], facts["amContainerLogs"]
            except (OSError, KeyError):
                return ()
            container = container.rstrip("/").rsplit("/", 2)[-2]
            self._own = (
                Source("coordinator", node, container, COORDINATOR_LOG),
                Source("master", node, container, MASTER_LOG),
            )
        return self._own

    def _copy(self, source: Source) -> None:
        path = self._folder / source.container / source.file
        have = path.stat().st_size if path.exists() else 0
        try:
            data = new_bytes(have, lambda last: _read(source, last))
        except OSError:
            return
        with writing(path):
            make_private(path.parent)
            with path.open("ab") as copy:
                copy.write(data)
        self._files[path] = LogFile(source.instance, path)


def new_bytes(have: int, read: Callable[[int], web.Piece]) -> bytes:
    """What a log has behind its first `have` bytes; `read` gives its last so many. Nothing when
    it grows too fast to be read now."""
    margin = MARGIN
    piece = read(margin)
    for _ in range(ATTEMPTS):
        missing = piece.length - have
        if missing <= len(piece.data):
            return piece.data[len(piece.data) - missing :] if missing > 0 else b""
        margin *= 4
        piece = read(missing + margin)
    return b""


def _read(source: Source, last: int) -> web.Piece:
    return web.read_log(source.node, source.container, source.file, last)
