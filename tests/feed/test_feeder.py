"""A whole feed without Spark: its tasks are threads of this process, and so are its programs."""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tfapp.contract.status import FeedStatus
from tfapp.engines.credentials import new_credentials
from tfapp.errors import FeedError
from tfapp.feed import inference, memory, pool, sender
from tfapp.feed.context import Feed
from tfapp.feed.driver import Feeder
from tfapp.feed.ledger import SHARE
from tfapp.feed.memory import SharedMemory
from tfapp.feed.programs import Programs
from tfapp.feed.sender import Order
from tfapp.feed.state import View
from tfapp.feed.wire import Credentials, Line, connect

# Threads end here in the middle of what a process would end with them.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")

LIMIT = 120.0  # seconds, of what takes a moment
FAILURES = 4  # of one task, until Spark gives up its job


class Data:
    """As `tfapp.feed.source.Source`: partitions with the rows 0, 1, ... of one column. Tasks are
    tried as Spark does it: one that has failed is tried again at once."""

    attempts = itertools.count()

    def __init__(self, sizes: Sequence[int], lines: Sequence[Line] = ()):
        """`lines`: that its tasks have, ended with Spark's job."""
        self.sizes, self.lines = sizes, lines
        self.context = self
        self.order: Order | None = None
        self.failures: list[BaseException] = []
        self.cancelled: set[str] = set()

    def check(self, columns: Sequence[str] | None) -> None:
        pass

    def prepare(self, order: Order, columns: Sequence[str] | None) -> int:
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
        self._serve, self._lines = self.receiver._serve, []
        self.receiver._serve = self._served  # type: ignore[method-assign]

    def _served(self, plain: socket.socket) -> None:
        self._lines.append(plain.dup())
        self._serve(plain)

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

    def begin(self) -> list[Program]:
        """Its next generation."""
        self.programs = [Program(self.credentials, self._folder) for _ in range(2)]
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


@pytest.fixture(autouse=True)
def without_spark(monkeypatch):
    spark = types.SimpleNamespace(InheritableThread=threading.Thread)
    monkeypatch.setitem(sys.modules, "pyspark", spark)
    monkeypatch.setattr("tfapp.feed.driver.Source", lambda data: data)
    monkeypatch.setattr("tfapp.feed.programs.LOOK_EVERY", 0.02)
    yield
    gc.collect()


@pytest.fixture
def connected(monkeypatch):
    """The connections that tasks have made."""
    made = []

    def connecting(*args: Any) -> Line:
        made.append(connect(*args))
        return made[-1]

    monkeypatch.setattr("tfapp.feed.pool.connect", connecting)
    return made


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


def ids(program: Program, rows: int = 10, taken: int | None = None) -> list[int]:
    """Those that a program gets, in batches of `rows`, to the end or until it has taken enough."""
    found = []
    for batch in program.feed.batches(rows):
        found += batch["id"].tolist()
        if taken is not None and len(found) >= taken:
            break
    return found


def shared(lines: Sequence[Line]) -> int:
    return sum(line.memory is not None for line in lines)


def wait_for(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_that_has_had_all_may_end_long_before_the_other(world, monkeypatch):
    monkeypatch.setattr("tfapp.feed.state.BROKEN_LIMIT", 0.0)
    quick, slow = world.begin()
    feeding = Later(lambda: world.feeder.feed(Data([40, 40])))
    first = Later(lambda: ids(slow, taken=10))
    mine = ids(quick)
    quick.end()
    assert len(mine) == 40
    line = world.feeder._state.programs["worker/0"].line
    wait_for(lambda: line._socket.fileno() < 0)  # the driver knows it
    others = first.result + [one for batch in iter(slow.receiver.take, None) for one in batch["id"]]
    assert sorted(mine + others) == list(range(80))
    assert (feeding.result.rows, feeding.result.dropped) == (80, 0)


def test_a_program_that_begins_again_when_all_was_fed_gets_nothing_and_goes_on(world):
    """Nobody sends it any more; it waited for ever."""
    first = [Later(lambda program=program: ids(program)) for program in world.begin()]
    assert world.feeder.feed(Data([40, 40])).rows == 80
    assert sorted(first[0].result + first[1].result) == list(range(80))
    for program in world.programs:
        program.end()
    again = [Later(lambda program=program: ids(program)) for program in world.begin()]
    assert [each.result for each in again] == [[], []]
    assert ["80 rows went to programs that have failed" in note for note in world.notes] == [True]


def test_two_feed_at_the_same_time(world):
    """One after the other."""
    running = []

    class Slow(Data):
        def run(self, *args: Any) -> None:
            running.append(self)
            time.sleep(0.05)
            assert running == [self]
            super().run(*args)
            running.remove(self)

    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    feeds = [Later(lambda: world.feeder.feed(Slow([200, 200]), final=False)) for _ in range(3)]
    assert max(one.result.rows for one in feeds) <= 1200
    assert world.feeder.end().rows == 1200
    assert sorted(taken[0].result + taken[1].result) == sorted(3 * [*range(400)])


def test_a_task_does_not_fail_before_the_driver_knows_that_its_program_has_gone(
    world, connected, monkeypatch
):
    """Else Spark gives up its job. Here the driver hears of it only after a while."""
    monkeypatch.setattr("tfapp.feed.tasks.KILL_PATIENCE", LIMIT)
    one, other = world.begin()
    refused = threading.Event()

    def refuse(*_: Any) -> None:
        refused.set()
        raise ConnectionError

    monkeypatch.setattr(one.receiver, "_serve_rows", refuse)
    data = Data([40, 40], connected)
    taking = [Later(lambda program=program: ids(program)) for program in (one, other)]
    feeding = Later(lambda: world.feeder.feed(data))
    assert refused.wait(LIMIT)
    assert world.feeder._state.live, "the driver does not know it"
    assert data.failures == []
    for program in (one, other):
        program.end()
    for each in taking:
        with pytest.raises(FeedError, match="the driver of the feed has gone"):
            assert each.result
    taking = [Later(lambda program=program: ids(program)) for program in world.begin()]
    assert feeding.result.rows == 80
    assert sorted(taking[0].result + taking[1].result) == list(range(80))
    assert len(data.failures) == 1, "Spark has ended it"


def test_spark_is_stopped_while_a_job_is_cancelled(world, connected):
    class Stopped(Data):
        def cancelJobGroup(self, group: str) -> None:
            super().cancelJobGroup(group)
            raise AttributeError("'NoneType' object has no attribute 'sc'")

    one, other = world.begin()
    feeding = Later(lambda: world.feeder.feed(Stopped([40_000], connected)))
    taking = Later(lambda: ids(other))
    assert len(ids(one, taken=10)) == 10
    one.feed.stop()
    assert feeding.result.stopped
    assert len(taking.result) == 10 * feeding.result.batches


@pytest.mark.parametrize("how", ["memory", "network"])
def test_questions_are_answered_in_their_order(world, connected, monkeypatch, how):
    if how == "network":
        monkeypatch.setattr(SharedMemory, "open", lambda self, place: False)
    for program in world.begin():
        Later(lambda program=program: program.feed.serve(lambda found: found["id"] + 1))
    batches = Data([5000]).batches(0)
    found = inference.ask(world.feeder.order(None), batches, 0, 0, None)
    answers = [one for _, (column,) in found for one in column.to_pylist()]
    assert answers == list(range(1, 5001))
    assert shared(connected) == (how == "memory")


def test_inference_waits_for_programs_that_begin_again(world):
    def answer(found: Any) -> Any:
        if world.view.generation == 1:
            world.programs[0].end()  # in the middle
        return found["id"] + 1

    def serve() -> None:
        for program in world.begin():
            Later(lambda program=program: program.feed.serve(answer))

    def asked() -> list[int]:
        batches = Data([40]).batches(0)
        found = inference.ask(world.feeder.order(None), batches, 0, 0, None)
        return [one for _, answers in found for one in answers[0].to_pylist()]

    serve()
    with pytest.raises(OSError):
        asked()
    again = Later(asked)
    world.programs[1].end()
    serve()
    assert again.result == list(range(1, 41))


def test_a_python_worker_that_serves_two_applications(tmp_path, connected):
    """It keeps its connections from task to task, and none of an application that has ended, nor
    of programs."""
    worlds = [World(tmp_path), World(tmp_path)]

    def begin(world: World) -> None:
        for program in world.begin():
            Later(lambda program=program: ids(program))

    for world in worlds:
        begin(world)
    for world in 3 * worlds:
        world.feeder.feed(Data([40, 40]), final=False)
    assert len(connected) == 2 * 3
    for program in worlds[0].programs:
        program.end()
    begin(worlds[0])
    state = worlds[0].feeder._state
    wait_for(lambda: state.live and state.ledger.generation == 2)
    for world in worlds:
        world.feeder.feed(Data([40, 40]), final=False)
    assert len(connected) == 2 * 3 + 2
    assert [len(pool._pools[one.credentials.packed()].idle) for one in worlds] == [3, 3]
    worlds[0].close()
    last = World(tmp_path)
    begin(last)
    last.feeder.feed(Data([40, 40]), final=False)
    assert worlds[0].credentials.packed() not in pool._pools
    for world in (worlds[1], last):
        world.close()


def test_rows_travel_through_shared_memory(world, connected, monkeypatch):
    """All of them, and tasks that follow use the same."""
    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    reading = []
    read = SharedMemory.read
    monkeypatch.setattr(
        SharedMemory, "read", lambda self, *where: reading.append(where) or read(self, *where)
    )
    for _ in range(3):
        world.feeder.feed(Data([40, 40]), final=False)
    assert shared(connected) == 2 and len(connected) == 3
    assert {slot for slot, _ in reading} == {0, 1}
    world.feeder.end()
    assert sorted(taken[0].result + taken[1].result) == sorted(3 * [*range(80)])
    world.close()

    def is_gone() -> bool:
        pool._pools[world.credentials.packed()].prune()
        return shared(connected) == 0

    wait_for(is_gone)


@pytest.mark.parametrize("why", ["program", "task", "many", "large"])
def test_rows_that_cannot_travel_through_memory(world, connected, monkeypatch, why):
    """The program is on another machine, the system of the task has no such memory, there are many
    programs, or the rows are too large."""
    if why == "program":
        monkeypatch.setattr(SharedMemory, "open", lambda self, place: False)
    elif why == "task":
        monkeypatch.delattr("os.memfd_create")
    elif why == "many":
        monkeypatch.setattr(pool, "SHARED", 1)
    else:
        monkeypatch.setattr(memory, "SLOT", 100)
    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    assert world.feeder.feed(Data([40, 40])).rows == 80
    assert sorted(taken[0].result + taken[1].result) == list(range(80))
    assert shared(connected) == {"program": 0, "task": 0, "many": 1, "large": 2}[why]


def test_a_failed_task_gives_up_its_memory(world, connected):
    """The program may read it later, when the next task writes."""

    class Broken(Data):
        def batches(self, part: int) -> Iterator[pa.RecordBatch]:
            yield from itertools.islice(super().batches(part), 2)
            if not self.failures:
                raise ConnectionError

    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    broken = Broken([20, 20])
    assert world.feeder.feed(broken).rows == 40
    assert len(broken.failures) == 1
    before, after = connected[:3], connected[3:]
    assert [shared(before), len(after), shared(after)] == [0, 3, 2]
    assert sorted(taken[0].result + taken[1].result) == list(range(40))


def test_a_driver_without_free_files_listens_again(world, monkeypatch):
    listener = world.feeder._tasks._listener
    errors = [OSError(errno.EMFILE, "Too many open files")]

    class Full:
        def accept(self) -> Any:
            if errors:
                raise errors.pop()
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    world.feeder._tasks._listener = Full()
    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    connect(world.feeder.address, world.credentials.tls(server=False), {"role": ""}).close()
    assert world.feeder.feed(Data([40, 40])).rows == 80
    assert errors == []
    assert sorted(taken[0].result + taken[1].result) == list(range(80))


def test_nobody_looks_for_the_programs_of_an_application_that_has_ended(world):
    def looking() -> bool:
        targets = [getattr(each, "_target", None) for each in threading.enumerate()]
        return Programs._serve_program in [getattr(one, "__func__", None) for one in targets]

    world.view = View(1, {"worker/0": "127.0.0.1:1"})
    wait_for(looking)
    world.view = View(1, {}, "it has failed")
    wait_for(lambda: not looking())
