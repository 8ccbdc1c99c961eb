"""Elements from their pickles are those that unpickling gives, and numbers need no unpickling."""

import collections
import itertools
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

from tfapp.errors import FeedError
from tfapp.feed.columns import check, features_of
from tfapp.feed.task import pickled
from tfapp.feed.task.pickled import runs
from tfapp.feed.task.rows import FEW, Packed, arrays_of, batches_of, batches_of_runs

WIDTH = 784
Pair = collections.namedtuple("Pair", ["x", "y"])


@pytest.fixture(autouse=True)
def new_worker(monkeypatch):
    """No layout is known."""
    monkeypatch.setattr(pickled, "_kept", [])


def pickles(elements, each):
    """As Spark keeps them."""
    rest = iter(elements)
    while chunk := list(itertools.islice(rest, each)):
        yield pickle.dumps(chunk, 5)


def outcome(batches):
    """The whole, or what is wrong with it."""
    found = []
    try:
        for batch in batches:
            features = features_of(found[0] if found else batch)
            check(batch, features, sum(each.num_rows for each in found), 3)
            found.append(batch)
        return pa.Table.from_batches(found).combine_chunks()
    except (FeedError, pa.ArrowInvalid) as error:
        return str(error)


def unpickled_alone(elements, each=100):
    """How many of the elements were made from their pickles."""
    found = list(runs(pickles(elements, each), pickle.loads))
    return sum(len(run) for run in found if isinstance(run, list))


def outcomes(elements, each):
    """Of the pickles, and of the elements one by one."""
    fed = outcome(batches_of_runs(runs(pickles(elements, each), pickle.loads), 3))
    return fed, outcome(batches_of(elements, 3))


def same(fed, wanted):
    """Whether it is the same, or neither can be fed."""
    if isinstance(fed, str) or isinstance(wanted, str):
        return isinstance(fed, str) and isinstance(wanted, str)
    # What is no number is not equal to itself.
    return fed.schema == wanted.schema and (
        fed.equals(wanted) or repr(fed.to_pylist()) == repr(wanted.to_pylist())
    )


draw = random.Random(7)
numbers = np.random.RandomState(7)


def floats(width):
    return [draw.random() for _ in range(width)]


def image(*shape):
    return numbers.rand(*shape).astype("float32")


KINDS = {
    "a list": lambda: floats(WIDTH),
    "a list that is longer than a group": lambda: floats(2500),
    "a tuple": lambda: (draw.random(), draw.random(), draw.random()),
    "a list of bytes": lambda: [draw.randrange(256) for _ in range(WIDTH)],
    "a list and its label": lambda: (floats(WIDTH), draw.randrange(10)),
    "a label and its list": lambda: (draw.randrange(10), floats(WIDTH)),
    "two lists of one size": lambda: (floats(9), floats(9)),
    "an array": lambda: image(WIDTH),
    "whole numbers": lambda: numbers.randint(0, 256, 64).astype("uint8"),
    "an array and its label": lambda: (image(28, 28, 1), draw.randrange(30)),
    "an array and a number of NumPy": lambda: (image(28, 28), np.int64(draw.randrange(10))),
    "three arrays of one size": lambda: (image(8, 8), image(8, 8), image(8, 8)),
    "half floats": lambda: image(64).astype("float16"),
    "a dict": lambda: {"x": numbers.rand(64), "y": draw.random()},
    "a named tuple": lambda: Pair(floats(64), draw.random()),
    "a float": lambda: draw.random(),
    "a float of NumPy": lambda: np.float32(draw.random()),
}


@pytest.mark.parametrize("each", [7, 100, 1000, 1001, 2500])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_found_in_their_pickles(kind, each):
    count = 2 * FEW if each < FEW else 3 * FEW if each == FEW else 2600
    if kind.startswith("a list"):
        count = min(count, 1200 if each <= 1001 else 120)
    elements = [KINDS[kind]() for _ in range(count)]
    assert same(*outcomes(elements, each))
    pickled._kept.clear()
    first = each * -(-FEW // each)
    assert unpickled_alone(elements, each) <= min(len(elements), first)


ONE_LIST, ONE_ARRAY = floats(2), image(9)
OTHERS = {
    "texts": lambda row: f"text {row}",
    "an array and a text": lambda row: (image(4), f"text {row}"),
    "small and large whole numbers": lambda row: [row % 300, 3 * row],
    "booleans": lambda row: [row % 2 == 0, row % 3 == 0],
    "floats and whole numbers": lambda row: [0.5, row % 7],
    "floats after whole numbers": lambda row: row % 7 if row < 150 else 0.5,
    "whole numbers after floats": lambda row: 0.5 if row < 150 else row % 7,
    "a float among the first whole numbers": lambda row: 0.5 if row == FEW - 2 else row % 7,
    "lists of lists": lambda row: [[0.5, 1.5], [2.5, float(row)]],
    "another width in the end": lambda row: floats(4 if row < 150 else 5),
    "another shape in the end": lambda row: (image(*((2, 6) if row < 150 else (3, 4))), row % 9),
    "labels that look like shapes": lambda row: (image(8, 3), 8 if row % 2 else 3),
    "shapes before their labels": lambda row: (row % 9, image(8, 3)),
    "one list for all": lambda row: ONE_LIST,
    "one array for all": lambda row: (ONE_ARRAY, row % 9),
    "big-endian numbers": lambda row: image(9).astype(">f4"),
    "arrays in Fortran's order": lambda row: np.asfortranarray(image(5, 3)),
    "no items": lambda row: [],
    "large arrays": lambda row: image(1 << 15),
    "numbers in many places": lambda row: {"a": row % 9, "b": (float(row), 2.0), "c": image(3)},
    "no numbers": lambda row: (float("nan"), float("inf")),
    "pickles in bytes": lambda row: pickle.dumps([floats(4)]),
    "NumPy's own floats": lambda row: [np.float64(row), np.float64(2)],
    "dates": lambda row: np.datetime64("2020-01-01") + np.timedelta64(row, "D"),
}


@pytest.mark.parametrize("each", [1, 16, 100])
@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_what_they_always_are(kind, each):
    assert same(*outcomes([OTHERS[kind](row) for row in range(300)], each))


def test_chance_decides_what_is_in_a_partition():
    """Kinds follow one another, in pickles of any sizes."""
    kinds = [
        *KINDS.values(),
        *(lambda make=make: make(draw.randrange(300)) for make in OTHERS.values()),
    ]
    for _ in range(150):
        elements = [
            element
            for make in draw.sample(kinds, draw.choice([1, 1, 2]))
            for element in [make() for _ in range(draw.randrange(1, 40))]
        ]
        fed, wanted = outcomes(elements, draw.choice([1, 3, 16, 33]))
        # Two kinds that are no partition one by one may be one as columns.
        assert isinstance(wanted, str) or same(fed, wanted), elements[:1]


def test_java_keeps_tuples_and_nothing():
    kept = [pickle.dumps(each, 2) for each in [(0.5, 1.5), (), (2.5,)]]
    (batch,) = batches_of_runs(runs(kept, pickle.loads), 3)
    assert batch.to_pydict() == {"value": [0.5, 1.5, 2.5]}


def test_a_pickle_has_a_layout_of_its_own():
    """Those of one partition are found again in the next one, whatever is between."""
    lists, arrays = [floats(WIDTH) for _ in range(200)], [image(9) for _ in range(200)]
    for elements in (lists, arrays):
        assert unpickled_alone(elements) == 100
    (_, found) = runs(pickles(lists, 100), pickle.loads)
    assert isinstance(found, Packed)
    assert arrays_of([found])["value"].tolist() == lists[100:]


def test_what_is_unpickled_does_not_wait_for_others():
    """The source may be slow."""
    read = []
    kept = pickles([f"text {row}" for row in range(60)], 10)
    found = runs((read.append(one) or one for one in kept), pickle.loads)
    assert [(len(run), len(read)) for run in found] == [(10, number) for number in range(1, 7)]


def test_the_numbers_of_chance_are_those_of_the_program():
    random.seed(3)
    wanted = random.random()
    random.seed(3)
    assert unpickled_alone([floats(9) for _ in range(200)]) == 100
    assert random.random() == wanted
