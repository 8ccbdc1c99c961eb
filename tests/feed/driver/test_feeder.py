"""A whole feed without Spark: its tasks are threads of this process, and so are its programs."""

from __future__ import annotations

import errno
import itertools
import threading
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.feed.world import LIMIT, Data, Later, Program, World, ids, wait_for
from tfapp.errors import FeedError
from tfapp.feed import memory
from tfapp.feed.driver.state import View
from tfapp.feed.memory import SharedMemory
from tfapp.feed.task import asker, pool
from tfapp.feed.wire import Line, connect
from tfapp.tensorflowonspark import TFNode

# Threads end here in the middle of what a process would end with them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
    pytest.mark.usefixtures("without_spark"),
]


class Tensor:
    """As TensorFlow's, of which NumPy can make an array."""

    def __init__(self, values: Any):
        self._values = values

    def __array__(self, *args: Any, **more: Any) -> Any:
        return np.asarray(self._values)


def shared(lines: Sequence[Line]) -> int:
    return sum(line.memory is not None for line in lines)


def test_one_that_has_had_all_may_end_long_before_the_other(world, monkeypatch):
    monkeypatch.setattr("tfapp.feed.driver.state.BROKEN_LIMIT", 0.0)
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


@pytest.mark.parametrize("row", [0, 1, 2, 3, 4, 6, 8, 10])
@pytest.mark.parametrize("shuffle", [0, 8])
def test_rows_that_differ_when_they_are_computed_again(world, connected, shuffle, row):
    """Whatever of them the programs had taken: it was noticed for every 64th row alone, and not
    where a program had taken a part of a piece."""
    changed = threading.Event()

    class Random(Data):
        def batches(self, part: int) -> Iterator[pa.RecordBatch]:
            ids = list(range(sum(self.sizes)))
            if changed.is_set():
                ids[row], ids[row + 1] = ids[row + 1], ids[row]
            yield pa.record_batch([pa.array(ids)], names=["id"])

    def some(program: Program, batches: int | None) -> list[int]:
        found = program.feed.batches(4, shuffle=shuffle)
        return [one for batch in itertools.islice(found, batches) for one in batch["id"].tolist()]

    data = Random([30], connected)
    taking = [Later(lambda program=program: some(program, 2)) for program in world.begin()]
    feeding = Later(lambda: world.feeder.feed(data))
    assert sorted(len(each.result) for each in taking) == [8, 8]
    changed.set()
    for program in world.programs:
        program.end()
    again = [Later(lambda program=program: some(program, None)) for program in world.begin()]
    with pytest.raises(FeedError, match="partition 0 has other rows when it is computed again"):
        assert feeding.result
    for each in again:
        with pytest.raises(FeedError):
            assert each.result


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
    monkeypatch.setattr("tfapp.feed.driver.tasks.KILL_PATIENCE", LIMIT)
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
    assert asked(world, Data([5000])) == list(range(1, 5001))
    assert shared(connected) == (how == "memory")


def asked(world: World, data: Data, context: Any = None, **more: Any) -> list[Any]:
    """The answers to the first partition's rows. `context`: the SparkContext of the task."""
    found = asker.ask(world.feeder.order(context), data.batches(0), 0, 0, None, **more)
    return [one for _, (column,) in found for one in column]


def test_answers_may_come_in_another_order(world):
    """Of a program that answers in several threads. They changed places."""

    def serve(program: Program) -> None:
        feed, held = program.feed, []
        while (question := feed.next(1)) is not None:
            held.append(question)
            if len(held) == 3 or question.arrays["id"][-1] == 4999:
                for each in reversed(held):
                    each.reply_values((each.arrays["id"] + 1).tolist())
                    with pytest.raises(FeedError, match="the question was answered already"):
                        each.refuse("no")
                held.clear()

    for program in world.begin():
        Later(lambda program=program: serve(program))
    assert asked(world, Data([5000])) == list(range(1, 5001))


RESULTS = {
    "a list": (lambda found: [int(one) for one in found], lambda n: n),
    "numbers of NumPy": (lambda found: list(found.astype("float32")), lambda n: n),
    "(n,)": (lambda found: found, lambda n: n),
    "(n, 1)": (lambda found: found.reshape(-1, 1), lambda n: [n]),
    "(n, 3)": (lambda found: np.repeat(found.reshape(-1, 1), 3, 1), lambda n: [n, n, n]),
    "(n, 2, 1)": (lambda found: np.stack([found, found], 1)[:, :, None], lambda n: [[n], [n]]),
    "texts": (lambda found: np.array([f"text {n}" for n in found]), lambda n: f"text {n}"),
    "a generator": (lambda found: (int(one) for one in found), lambda n: n),
    "a tensor": (Tensor, lambda n: n),
    "tensors": (lambda found: [Tensor(one) for one in found], lambda n: n),
}


@pytest.mark.parametrize("batch", [3, 10, 50])
@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_tensorflowonspark(world, kind, batch):
    """`list += array` is NumPy's addition: no results, or the program's end. An array was added to
    the list before it, too."""
    results, wanted = RESULTS[kind]

    def serve(program: Program) -> None:
        feed = TFNode.DataFeed(types.SimpleNamespace(feed=program.feed), input_mapping={"id": "x"})
        while not feed.should_stop():
            found = feed.next_batch(batch)["x"]
            if len(found):
                half = len(found) // 2
                feed.batch_results([wanted(int(one)) for one in found[:half]])
                feed.batch_results(results(found[half:]))

    for program in world.begin():
        Later(lambda program=program: serve(program))
    assert [np.asarray(one).tolist() for one in asked(world, Data([100]))] == list(
        map(wanted, range(100))
    )


def cancelled(world: World, data: Data) -> str:
    """Why the driver cancels the stage of a task that asks."""
    stages: list[str] = []
    spark = types.SimpleNamespace(cancelStage=lambda stage, words: stages.append(words))
    context = types.SimpleNamespace(_jsc=types.SimpleNamespace(sc=lambda: spark))
    asking = Later(lambda: asked(world, data, context))
    wait_for(lambda: stages)
    world.close()
    with pytest.raises(OSError):
        assert asking.result
    return stages[0]


def test_what_is_no_result_is_told(world):
    def serve(program: Program) -> None:
        feed = TFNode.DataFeed(types.SimpleNamespace(feed=program.feed), input_mapping={"id": "x"})
        while not feed.should_stop():
            if len(found := feed.next_batch(64)["x"]):
                feed.batch_results([threading.Lock()] * len(found))

    for program in world.begin():
        Later(lambda program=program: serve(program))
    words = cancelled(world, Data([10]))
    assert words.startswith("partition 0: a lock cannot be pickled"), words


def test_only_the_columns_that_are_asked_for_are_sent(world):
    class Many(Data):
        def batches(self, part: int) -> Iterator[pa.RecordBatch]:
            for batch in super().batches(part):
                yield batch.append_column(
                    "when", pa.nulls(batch.num_rows, pa.timestamp("us", "UTC"))
                )

    for program in world.begin():
        Later(lambda program=program: program.feed.serve(lambda found: [*found.values()][-1] + 1))
    assert asked(world, Many([40]), columns=["id"]) == list(range(1, 41))


@pytest.mark.parametrize("moment", ["before", "in the middle"])
def test_a_failed_program_is_the_error_of_inference(world, moment):
    """It was that a connection has ended."""
    lines = "Traceback (most recent call last):\nValueError: bad row 7"

    def fail() -> None:
        for program in world.programs:
            program.end()
        world.view = View(1, {}, "Failed: worker/0 ended with exit code 1", last_lines=lines)

    def answer(found: Any) -> Any:
        fail()
        return found["id"]

    for program in world.begin():
        Later(lambda program=program: program.feed.serve(answer))
    if moment == "before":
        wait_for(lambda: len(world.feeder._state.programs) == 2)
        fail()
    words = cancelled(world, Data([40]))
    assert words.startswith("partition 0: feed has ended, and its programs answer no more: "), words
    assert words.endswith(f"exit code 1\n{lines}")


@pytest.mark.slow
def test_inference_waits_for_programs_that_begin_again(world):
    def answer(found: Any) -> Any:
        if world.view.generation == 1:
            world.programs[0].end()  # in the middle
        return found["id"] + 1

    def serve() -> None:
        for program in world.begin():
            Later(lambda program=program: program.feed.serve(answer))

    serve()
    with pytest.raises(OSError):
        asked(world, Data([40]))
    again = Later(lambda: asked(world, Data([40])))
    world.programs[1].end()
    serve()
    assert again.result == list(range(1, 41))


def test_a_python_worker_that_serves_two_applications(tmp_path, connected):
    """It keeps its connections from task to task, but none of an ended application or program."""
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
    listening = world.feeder._tasks._listening
    listener = listening._socket
    errors = [OSError(errno.EMFILE, "Too many open files")]

    class Full:
        def accept(self) -> Any:
            if errors:
                raise errors.pop()
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    listening._socket = Full()
    taken = [Later(lambda program=program: ids(program)) for program in world.begin()]
    connect(world.feeder.address, world.credentials.tls(server=False), {"role": ""}).close()
    assert world.feeder.feed(Data([40, 40])).rows == 80
    assert errors == []
    assert sorted(taken[0].result + taken[1].result) == list(range(80))


def test_nobody_looks_for_the_programs_of_an_application_that_has_ended(world):
    def looking() -> bool:
        return "tfapp-feed-program" in [each.name for each in threading.enumerate()]

    world.view = View(1, {"worker/0": "127.0.0.1:1"})
    wait_for(looking)
    world.view = View(1, {}, "it has failed")
    wait_for(lambda: not looking())


def test_a_program_that_is_not_understood_ends_the_feed_at_once(world):
    """Whatever its line raises in the driver, not an OSError alone."""
    first, second = world.begin()
    reading = [Later(lambda one=one: list(one.feed.batches(10))) for one in (first, second)]
    feeding = Later(lambda: world.feeder.feed(Data([40000]), stall_timeout=LIMIT))
    assert first.receiver.state(0)[1] == 1  # the driver is there
    line = first.receiver._driver
    with line._lock:  # others write lines to it too
        line._socket.sendall(b"garbage\n")
    with pytest.raises(
        FeedError, match="the driver has got from worker/0 'garbage', which is no JSON"
    ):
        print(feeding.result)
    for one in reading:
        with pytest.raises(FeedError):
            print(one.result)
