"""An application that is fed without Spark: its tasks and programs are threads of this process."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tests.waiting import wait
from tfapp.contract.status import FeedStatus
from tfapp.engines.credentials import new_credentials
from tfapp.feed.driver.feeder import Feeder
from tfapp.feed.driver.ledger import SHARE
from tfapp.feed.driver.state import View
from tfapp.feed.program.context import Feed
from tfapp.feed.task import sender
from tfapp.feed.task.sender import FeedOrder
from tfapp.feed.wire import Credentials, Line

LIMIT = 120.0  # seconds, of what takes a moment
FAILURES = 4  # of one task, until Spark gives up its job


class Data:
    """As `tfapp.feed.driver.data.FedData`: partitions with the rows 0, 1, ... of one column. Tasks
    are tried as Spark does it: one that has failed is tried again at once."""

    attempts = itertools.count()

    def __init__(self, sizes: Sequence[int], lines: Sequence[Line] = ()):
        """`lines`: that its tasks have, ended with Spark's job."""
        self.sizes, self.lines = sizes, lines
        self.context = self
        self.order: FeedOrder | None = None
        self.failures: list[BaseException] = []
        self.cancelled: set[str] = set()

    def check(self, columns: Sequence[str] | None) -> None:
        pass

    def prepare(self, order: FeedOrder, columns: Sequence[str] | None) -> int:
        self.order = order
        return len(self.sizes)

    def run(self, partitions: Sequence[int], group: str, label: str) -> None:
        for part in partitions:
            for failures in range(1, FAILURES + 1):
                if group in self.cancelled:
                    raise RuntimeError("the job was cancelled")
                try:
                    assert self.order is not None
                    sender.send(self.order, self.batches(part), part, next(self.attempts))
                    break
                except OSError as error:
                    self.failures.append(error)
                    if failures == FAILURES:
                        raise

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        first = sum(self.sizes[:part])
        for at in range(first, first + self.sizes[part], 10):
            yield pa.record_batch([pa.array(range(at, at + 10))], names=["id"])

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.add(group)
        for line in self.lines:
            line.end()

    def ended(self, group: str) -> set[int]:
        return set()


class Board:
    def show(self, feed: FeedStatus) -> None:
        pass

    def close(self) -> None:
        pass


class Program:
    """One of a generation, with its feed. `end` does what its process's end does."""

    def __init__(self, credentials: Credentials, folder: Any):
        self._held = socket.socket()  # as the runner holds it
        self._held.bind(("", 0))
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.address = f"127.0.0.1:{self._held.getsockname()[1]}"
        self.feed = Feed(self.address, credentials.packed(), folder)
        self.receiver = self.feed._open()
        self._lines = []
        self._serve = self.receiver._listening._serve
        self.receiver._listening._serve = self._served

    def _served(self, plain: socket.socket, *more: Any) -> None:
        self._lines.append(plain.dup())
        self._serve(plain, *more)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.receiver._listener.shutdown(socket.SHUT_RDWR)
        self.receiver._listener.close()
        self._held.close()
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


class World:
    """An application with two programs, and what feeds it."""

    def __init__(self, folder: Any):
        self._folder = folder
        self.credentials = Credentials(*new_credentials(time.time()))
        self.view = View(0, {})
        self.notes: list[str] = []
        self.programs: list[Program] = []
        more = {"rest": SHARE, "note": self.notes.append}
        self.feeder = Feeder(lambda: self.view, self.credentials, "127.0.0.1", Board(), **more)

    def begin(self, count: int = 2) -> list[Program]:
        """Its next generation."""
        self.programs = [Program(self.credentials, self._folder) for _ in range(count)]
        addresses = {f"worker/{n}": one.address for n, one in enumerate(self.programs)}
        self.view = View(self.view.generation + 1, addresses)
        return self.programs

    def close(self) -> None:
        self.feeder.close()
        for program in self.programs:
            program.end()


class Later:
    """What a function returns, or raises, in a thread of its own."""

    def __init__(self, function: Callable[[], Any]):
        self._function, self._found = function, []
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def _call(self) -> None:
        try:
            self._found.append((self._function(), None))
        except BaseException as error:
            self._found.append((None, error))

    @property
    def result(self) -> Any:
        self._thread.join(LIMIT)
        ((value, error),) = self._found
        if error is not None:
            raise error
        return value


def ids(program: Program, rows: int = 10, taken: int | None = None) -> list[int]:
    """Those that a program gets, in batches of `rows`, to the end or until it has taken enough."""
    found = []
    for batch in program.feed.batches(rows):
        found += batch["id"].tolist()
        if taken is not None and len(found) >= taken:
            break
    return found


def wait_for(ready: Callable[[], object]) -> None:
    wait(ready, "it has not come", LIMIT, every=0.01)
