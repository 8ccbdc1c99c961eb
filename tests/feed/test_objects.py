"""Elements of an RDD that make no tensors reach programs of TensorFlowOnSpark as they are."""

from __future__ import annotations

import collections
import datetime
import decimal
import pickle
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.feed.driver.test_feeder import asked
from tests.feed.world import Data, Later, Program
from tfapp.errors import FeedError
from tfapp.feed.task import asker, rows
from tfapp.feed.task.pickled import runs
from tfapp.feed.task.rows import Elements, batches_of, batches_of_runs
from tfapp.tensorflowonspark.TFNode import DataFeed

pytestmark = pytest.mark.usefixtures("without_spark")
Pair = collections.namedtuple("Pair", ["x", "y"])


class Word(str):
    """Of a class that Arrow does not know."""


class Row(tuple):
    """As pyspark's."""

    def __new__(cls, **fields: Any) -> Row:
        made = super().__new__(cls, fields.values())
        made.__fields__ = list(fields)
        return made

    def __reduce__(self) -> Any:
        raise AssertionError("programs may have no pyspark")


class Objects(Data):
    """Partitions with these elements."""

    def __init__(self, parts: Sequence[Sequence[Any]], kept: bool = False):
        """`kept`: whether they are pickled, as Spark keeps those that Python did not compute."""
        super().__init__([len(part) for part in parts])
        self.parts, self.kept = parts, kept

    def batches(self, part: int) -> Any:
        elements = self.parts[part]
        if not self.kept:
            return batches_of(elements, part)
        lists = [elements[at : at + 100] for at in range(0, len(elements), 100)]
        return batches_of_runs(runs(map(pickle.dumps, lists), pickle.loads), part)


def plain(value: Any) -> Any:
    """Without the types in which equal elements may come."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    names = getattr(value, "names", ("0",))
    if isinstance(value, dict) or names[0] != "0":
        value = value if isinstance(value, dict) else dict(zip(names, value))
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


# An element of the partition `part` with the number `n`.
KINDS: dict[str, Callable[[int, int], Any]] = {
    "nothing": lambda part, n: None if n % 7 == 3 else n,
    "a null in a tuple": lambda part, n: (n, None if n % 7 == 3 else "a"),
    "lists of tokens": lambda part, n: [n] * (n % 5),
    "lists of texts": lambda part, n: (["a", "b"], n),
    "dates": lambda part, n: (n, datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)),
    "decimals": lambda part, n: decimal.Decimal(n),
    "a set": lambda part, n: {n},
    "an empty tuple": lambda part, n: (),
    "large numbers": lambda part, n: 2**63 + n,
    "dicts in dicts": lambda part, n: {"a": {"b": n}},
    "a key that comes later": lambda part, n: {"id": n, "y": 1} if n > 130 else {"id": n},
    "a class": lambda part, n: (n, collections.Counter([n])),
    "another length in the end": lambda part, n: [0.5] * (3 if n < 250 else 4),
    "another length elsewhere": lambda part, n: [0.5] * (3 + part),
    "another type elsewhere": lambda part, n: [n, "a"][part],
    "another kind elsewhere": lambda part, n: [(n, [1.5]), {"x": n}][part],
    "floats after whole numbers": lambda part, n: n if n < 200 else n + 0.5,
}


def learn(program: Program, read: Callable[[DataFeed], Any], **more: Any) -> list[Any]:
    feed = DataFeed(types.SimpleNamespace(feed=program.feed), **more)  # type: ignore[arg-type]
    found: list[Any] = []
    while not feed.should_stop():
        found += read(feed)
    return found


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_elements_come_once(world, kind, kept):
    parts = [[KINDS[kind](part, n) for n in range(300)] for part in range(2)]
    learning = [Later(lambda p=p: learn(p, lambda f: f.next_batch(32))) for p in world.begin()]
    assert world.feeder.feed(Objects(parts, kept)).rows == 600
    found = [one for each in learning for one in each.result]
    assert sorted(repr(plain(one)) for one in found) == sorted(
        repr(plain(one)) for part in parts for one in part
    )


def test_names_are_kept_without_their_class(world):
    parts = [[Row(id=n, none=None) for n in range(80)], [Pair(n, None) for n in range(80)]]
    learning = [Later(lambda p=p: learn(p, lambda f: f.next_batch(9))) for p in world.begin()]
    world.feeder.feed(Objects(parts))
    found = [one for each in learning for one in each.result]
    named = {
        names: [one for one in found if one.names == names] for names in map(type_names, found)
    }
    assert sorted(one.id for one in named["id", "none"]) == list(range(80))
    assert sorted(one["x"] for one in named["x", "y"]) == list(range(80))


def type_names(row: Any) -> tuple[str, ...]:
    return row.names


@pytest.mark.parametrize(
    "make",
    [lambda n: (n, [n] * n), lambda n: {"b": [n] * n, "a": n}, lambda n: Row(a=n, b=[n] * n)],
)
def test_an_input_mapping_gives_lists(world, make):
    """By name where there are names, else in alphabetical order."""

    def read(feed: DataFeed) -> list[Any]:
        batch = feed.next_batch(8)
        return list(zip(batch["number"], batch["list"]))

    mapping = {"b": "list", "a": "number"}
    learning = [Later(lambda p=p: learn(p, read, input_mapping=mapping)) for p in world.begin()]
    world.feeder.feed(Objects([[make(n) for n in range(40)]]))
    found = sorted(pair for each in learning for pair in each.result)
    assert found == [(n, [n] * n) for n in range(40)]


@pytest.mark.parametrize("kind", KINDS)
def test_questions_and_their_results_are_objects(world, kind):
    """Results keep their types, whatever they are."""
    elements = [KINDS[kind](0, n) for n in range(300)]

    def read(feed: DataFeed) -> list[Any]:
        batch = feed.next_batch(32)
        if batch:
            feed.batch_results([(plain(one), {"a": None}) for one in batch])
        return []

    for program in world.begin():
        Later(lambda program=program: learn(program, read))
    assert asked(world, Objects([elements])) == [(plain(one), {"a": None}) for one in elements]


def test_results_for_a_column_have_its_type(world):
    """Those for `app.infer(frame, "p float")`."""

    def read(feed: DataFeed) -> list[Any]:
        feed.batch_results([row[0] + 0.5 for row in feed.next_batch(32)])
        return []

    class Frame(Data):
        def batches(self, part: int) -> Any:
            for batch in super().batches(part):
                yield batch.append_column("more", batch.column(0))

    for program in world.begin():
        Later(lambda program=program: learn(program, read))
    wanted = pa.schema([("p", pa.float32())])
    found = list(asker.ask(world.feeder.order(None), Frame([100]).batches(0), 0, 0, wanted))
    assert [column.type for _, (column,) in found] == [pa.float32()] * len(found)
    assert [n for _, (column,) in found for n in column.to_pylist()] == [
        n + 0.5 for n in range(100)
    ]


def test_a_second_attempt_with_other_batches_is_no_other_data(world, monkeypatch):
    """Which elements are pickles depends on how they came; equal objects have several pickles."""
    attempts: list[int] = []

    class Interrupted(Objects):
        def batches(self, part: int) -> Any:
            attempts.append(part)
            monkeypatch.setattr(rows, "FEW", [64, 7][len(attempts) - 1])
            elements: Elements = super().batches(part)
            take = elements._take
            left = iter([3, 2, 1] if len(attempts) == 1 else [])

            def some(most: int) -> Any:
                if len(attempts) == 1 and not next(left, 0):
                    raise OSError("the executor is gone")
                return take(most)

            elements._take = some
            return elements

    given = [n if n < 100 else (n, None) for n in range(1000)]
    learning = [Later(lambda p=p: learn(p, lambda f: f.next_batch(8))) for p in world.begin()]
    assert world.feeder.feed(Interrupted([given])).rows == 1000
    found = [plain(one) for each in learning for one in each.result]
    assert sorted(map(repr, found)) == sorted(map(repr, map(plain, given)))
    assert attempts == [0, 0]


def test_who_asks_for_tensors_gets_no_objects(world):
    for program in world.begin():
        Later(lambda program=program: list(program.feed.batches(10)))
    with pytest.raises(FeedError, match="partition 0"):
        world.feeder.feed(Objects([[[1] * (n % 3) for n in range(50)]]))
