"""Arrow's columns as arrays, and what makes no tensor."""

import collections
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from tests import programs
from tfapp.errors import FeedError
from tfapp.feed.columns import (
    TEXT,
    Feature,
    arrays_of,
    check,
    digest_of,
    element_type,
    features_of,
    record_batch,
    serialized,
)
from tfapp.feed.intervals import DIGESTS
from tfapp.feed.task.rows import FEW, batches_of

AB, BA, AC = (collections.namedtuple("Names", names) for names in ("a b", "b a", "a c"))


class Row(tuple):
    """As pyspark's, whose fields are its own, in any order."""

    def __new__(cls, **fields):
        made = super().__new__(cls, fields.values())
        made.__fields__ = list(fields)
        return made


def batch(**columns):
    return pa.record_batch(list(map(pa.array, columns.values())), names=list(columns))


def stream(made):
    """What travels."""
    return b"".join(map(memoryview, serialized(made)))


def of_rows(elements):
    return list(batches_of(elements, part=3))


def test_columns_travel_with_their_types_and_shapes():
    made = pa.record_batch(
        [
            pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
            pa.array([7, 8], pa.int16()),
            pa.array(["a", "bc"]),
            pa.array([[[1, 2, 3]], [[4, 5, 6]]]),
            pa.array([True, False]),
        ],
        names=["x", "n", "text", "deep", "flag"],
    )
    assert features_of(made) == (
        Feature("x", "float32", (2,)),
        Feature("n", "int16", ()),
        Feature("text", TEXT, ()),
        Feature("deep", "int64", (1, 3)),
        Feature("flag", "bool", ()),
    )
    arrays = arrays_of(stream(made.slice(1)))
    assert {name: values.tolist() for name, values in arrays.items()} == {
        "x": [[3.0, 4.0]],
        "n": [8],
        "text": ["bc"],
        "deep": [[[4, 5, 6]]],
        "flag": [False],
    }
    assert (arrays["x"].dtype, arrays["n"].dtype) == (np.float32, np.int16)


def test_arrays_become_columns_again():
    given = {"a": np.arange(24.0).reshape(2, 3, 4), "b": np.array([1, 2])}
    back = arrays_of(stream(record_batch(given)))
    assert all(np.array_equal(back[name], given[name]) for name in given)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([[1.0, 2.0], [1.0]], "row 11 of partition 3: it has 1 values where the first row has 2"),
        ([[1.0], None], "row 11 of partition 3: it is null"),
        ([[1.0, 2.0], [1.0, None]], "row 11 of partition 3: it has a null in it"),
        ([1, None], "row 11 of partition 3: it is null"),
        ([[[1], [2]], [[1], [2, 3]]], "row 11 of partition 3: it has 2 values where"),
    ],
)
def test_a_row_that_is_not_like_the_first_is_named(column, words):
    made = batch(x=column)
    with pytest.raises(FeedError, match=f"column 'x', {words}"):
        check(made, features_of(made.slice(0, 1)), first=10, part=3)


@pytest.mark.parametrize(("first", "second"), [([1.0], 2.0), (1.0, [2.0]), ([[1.0]], [2.0])])
def test_a_row_of_another_rank_is_named(first, second):
    features = features_of(batch(x=[first]))
    with pytest.raises(FeedError, match="column 'x', row 10 of partition 3: it has the rank"):
        check(batch(x=[second]), features, first=10, part=3)


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.map_(pa.string(), pa.int32()), pa.list_(pa.string())]
)
def test_a_type_that_makes_no_tensor_is_refused(kind):
    made = pa.record_batch([pa.nulls(1, kind)], names=["when"])
    with pytest.raises(FeedError, match="column 'when' is .* which makes no tensor"):
        features_of(made)


def rows_of_all_kinds(count=200):
    draw = np.random.RandomState(5)
    return pa.record_batch(
        {
            "x": pa.array(draw.rand(count, 3).tolist(), pa.list_(pa.float32())),
            "odd": pa.array(draw.randint(0, 9, (count, 7)).tolist(), pa.list_(pa.int8(), 7)),
            "n": pa.array(np.arange(count)),
            "flag": pa.array(draw.rand(count) < 0.5),
            "text": pa.array([f"text {n}" for n in range(count)]),
            "bytes": pa.array([b"x" * (n % 3) for n in range(count)]),
        }
    )


def test_digests_add_up_whatever_the_pieces():
    made = rows_of_all_kinds()
    whole = digest_of(made, 5)
    for cuts in ([1], [64, 65], [10, 50, 199]):
        pieces = [0, *cuts, 200]
        parts = [digest_of(made.slice(a, b - a), 5 + a) for a, b in zip(pieces, pieces[1:])]
        assert sum(parts) % DIGESTS == whole


def test_a_digest_is_the_same_in_every_process():
    """The first attempt at a partition may be on another machine than the second one."""
    made = record_batch({"x": np.arange(12, dtype="float32").reshape(2, 6), "n": np.arange(2)})
    code = (
        "import numpy as np; from tfapp.feed.columns import *; print(digest_of(record_batch("
        "{'x': np.arange(12, dtype='float32').reshape(2, 6), 'n': np.arange(2)}), 3))"
    )
    assert programs.printed("-c", code) == f"{digest_of(made, 3)}\n"


def changed_rows():
    """(what is different, the same rows with this difference)."""
    made, draw = rows_of_all_kinds(), random.Random(3)
    for _ in range(60):
        one, other = draw.sample(range(200), 2)
        order = list(range(200))
        order[one], order[other] = other, one
        yield f"rows {one} and {other} have changed places", made.take(pa.array(order))
        name = draw.choice(made.schema.names)
        values = made.column(name).to_pylist()
        if values[one] != values[other]:
            values[one] = values[other]
            place = made.schema.get_field_index(name)
            column = pa.array(values, made.schema.field(name).type)
            yield f"{name} of row {one}", made.set_column(place, name, column)
    halves = [made.column("x").to_pylist(), [[0.0, 0.0, 0.0]] * 200]
    for name in ("x", "odd"):
        values = made.column(name).to_pylist()
        values[7] = values[7][::-1]
        place = made.schema.get_field_index(name)
        column = pa.array(values, made.schema.field(name).type)
        yield f"the order in {name}", made.set_column(place, name, column)
    yield "many rows", made.set_column(0, "x", pa.array(halves[1], pa.list_(pa.float32())))


def test_a_digest_sees_every_row():
    """Of every 64th row alone it saw nothing else."""
    whole = digest_of(rows_of_all_kinds(), 5)
    assert [what for what, made in changed_rows() if digest_of(made, 5) == whole] == []
    small = [
        record_batch({"n": np.array(each, "float64")})
        for each in itertools.product((0, 1, 2), repeat=4)
    ]
    assert len({digest_of(each, 0) for each in small}) == 3**4


@pytest.mark.parametrize(
    ("elements", "columns"),
    [
        ([1, 2], {"value": [1, 2]}),
        ([[1.5, 2.0], [3.0, 4.0]], {"value": [[1.5, 2.0], [3.0, 4.0]]}),
        ([np.ones(2, "float32")] * 2, {"value": [[1.0, 1.0], [1.0, 1.0]]}),
        ([([1.0, 2.0], 7), ([3.0, 4.0], 8)], {"0": [[1.0, 2.0], [3.0, 4.0]], "1": [7, 8]}),
        ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], {"a": [1, 2], "b": ["x", "y"]}),
        ([b"ab", b"c"], {"value": [b"ab", b"c"]}),
        ([{"a": 1, "b": "x"}, {"b": "y", "a": 2}], {"a": [1, 2], "b": ["x", "y"]}),
        ([AB(1, "x"), BA("y", 2)], {"a": [1, 2], "b": ["x", "y"]}),
        ([Row(a=1, b="x"), Row(b="y", a=2)], {"a": [1, 2], "b": ["x", "y"]}),
        ([Row(a=1, b="x"), {"b": "y", "a": 2}], {"a": [1, 2], "b": ["x", "y"]}),
        ([{1: 1, 2: "x"}, {2: "y", 1: 2}], {"1": [1, 2], "2": ["x", "y"]}),
        ([(1, "x"), [2, "y"]], {"0": [1, 2], "1": ["x", "y"]}),
    ],
)
def test_elements_of_an_rdd_become_columns(elements, columns):
    """Values that have names are found by them."""
    (made,) = of_rows(elements)
    assert made.to_pydict() == columns
    first, last = of_rows(elements[:1] * FEW + elements[1:])
    assert (first.schema.names, last.schema.names) == (list(columns), list(columns))
    assert last.to_pydict() == {name: values[1:] for name, values in columns.items()}


@pytest.mark.parametrize("values", [range(FEW), range(2 * FEW)])
def test_columns_that_nobody_asks_for_are_not_converted(values):
    """They may be what makes no tensor, and need not be in all elements."""
    elements = [{"a": n, "when": object()} if n % 2 else {"b": n, "a": n} for n in values]
    made = list(batches_of(elements, 3, ["a"]))
    assert [each.schema.names for each in made] == [["a"]] * len(made)
    assert sum((each.column(0).to_pylist() for each in made), []) == list(values)
    words = "row 65 of partition 3: the program asks for column 'c', and the data has a"
    with pytest.raises(FeedError, match=words):
        list(batches_of([{"a": 1, "c": 2}] * 65 + [{"a": 1}], 3, ["c"]))


@pytest.mark.parametrize(("width", "most"), [(4, 1 << 14), (1 << 16, 16), (1 << 21, 1)])
def test_arrays_keep_their_type_and_batches_are_bounded(width, most):
    row, count = np.zeros(width, "float32"), FEW + 2 * most + 1
    made = of_rows(itertools.repeat(row, count))
    assert [each.num_rows for each in made] == [FEW, most, most, 1]
    assert features_of(made[0]) == (Feature("value", "float32", (width,)),)


@pytest.mark.parametrize(
    ("elements", "kind"),
    [
        ([[1.5, 2.0], [3, 4.0]], pa.float64()),
        ([(1, 2), (3, 1 << 62)], pa.int64()),
        ([[1, 2.5], [3, 4]], pa.float64()),
        ([[True, False]], pa.bool_()),
        ([[[1.0], [2.0]]], pa.list_(pa.float64())),
    ],
)
def test_lists_have_the_type_of_their_numbers(elements, kind):
    (made,) = of_rows([(each, "") for each in elements])
    assert made.column(0).type.value_type == kind
    assert made.column(0).to_pylist() == [list(each) for each in elements]


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        ([1.5, 2.0], [1, 2], pa.float64()),
        (1.5, 1, pa.float64()),
        (np.zeros(2, "float64"), np.ones(2, "float32"), pa.float64()),
        ([1, 2], [3, 4], pa.int64()),
    ],
)
def test_later_rows_have_the_type_of_the_first(first, later, kind):
    made = of_rows([first] * FEW + [later] * 3)
    assert [element_type(each.schema.field(0))[0] for each in made] == [kind, kind]
    assert np.array_equal(arrays_of(stream(made[1]))["value"], [later] * 3)


def test_later_rows_that_cannot_have_that_type_are_refused():
    for first, later in ((1, 1.5), (np.zeros(2, "int32"), np.zeros(2))):
        with pytest.raises(FeedError, match="column 'value', row 64 of partition 3: "):
            of_rows([first] * FEW + [later])
    made = of_rows([[1, 2]] * FEW + [[1.5, 2.5]])
    assert element_type(made[1].schema.field(0))[0] == pa.float64()  # the sender refuses it


def test_a_slow_source_does_not_wait_for_a_full_batch(monkeypatch):
    monkeypatch.setattr("tfapp.feed.task.rows.PATIENCE", 0.0)
    assert [each.num_rows for each in of_rows([1] * 200)] == [64, 64, 64, 8]


@pytest.mark.parametrize("elements", [[[1.0, 2.0], [1.0, None]], [[1.0, 2.0], [1.0]]])
def test_lists_that_are_not_alike_are_found(elements):
    (made,) = of_rows(elements)
    with pytest.raises(FeedError, match="row 1 of partition 3"):
        check(made, features_of(made), first=0, part=3)


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([np.ones(2), np.ones(1)], "column 'value', row 1 of partition 3: it has the shape"),
        ([{"a": 1}, {"b": 1}], "row 1 of partition 3: it has b where the first element has a: the"),
        ([{"a": 1}, {"a": 1, "b": 2}], "row 1 of .*: it has a, b where .* has a: 'b' is new"),
        ([AB(1, 2), AC(1, 2)], "row 1 of partition 3: it has a, c where .* a, b: there is no 'b'"),
        ([AB(1, 2), (1, "x")], "row 1 of partition 3: its values have no names, and those of the"),
        ([(1, "x"), AB(1, "x")], "row 1 of partition 3: its values have names, and those of the"),
        ([(1.0, 2.0), AB(1.0, 2.0)], "row 1 of partition 3: its values have names"),
        ([1.0, {"a": 1}], "row 1 of partition 3: its values have names"),
        ([(1, "a"), (1, "a", 2)], "row 1 of partition 3: it has 3 items where the first .* has 2"),
        ([(1, "a"), "ab"], "row 1 of partition 3: it has value where the first element has 0, 1"),
        ([(1, "a"), (2, 3)], "column '1', row 1 of partition 3: int makes no tensor here"),
        ([Row(a=1), Row(a=1, b=2)], "row 1 of partition 3: it has a, b where"),
        ([(1, 2), ()], "row 1 of partition 3: it is empty: \\(\\)"),
        ([1, object()], "column 'value', row 1 of partition 3: object makes no tensor here"),
        ([1, 1 << 64], "column 'value', row 1 of partition 3: int makes no tensor here: .* too l"),
        ([np.uint64(1), np.uint64(1 << 63)], "row 1 of partition 3: uint64 makes no tensor here"),
        ([1, "x"], "column 'value', row 1 of partition 3: str makes no tensor here"),
        ([[1.0], None], "column 'value', row 1 of partition 3: it is null"),
    ],
)
def test_elements_that_are_not_alike_are_named(elements, words):
    """In the first batch, and in a later one."""
    with pytest.raises(FeedError, match=words):
        checked(elements)
    with pytest.raises(FeedError, match=f"row {FEW} of partition 3: "):
        checked(elements[:1] * FEW + elements[1:])


def checked(elements):
    first, seen = None, 0
    for made in batches_of(elements, 3):
        first = first or features_of(made)
        check(made, first, seen, 3)
        seen += made.num_rows


@pytest.mark.parametrize("element", [(), [], {}, np.zeros(0), Row()])
def test_an_empty_element_does_not_vanish(element):
    with pytest.raises(FeedError, match="row 0 of partition 3: "):
        checked([element] * 5)


def test_an_empty_array_is_named():
    made = batch(x=[[], [1.0, 2.0]])
    with pytest.raises(FeedError, match="column 'x', row 0 of partition 3: it is an empty array"):
        check(made, features_of(made), first=0, part=3)


def test_a_program_takes_rows_without_pandas(tmp_path):
    """Its import takes a quarter of a second and 50 MiB, and programs may lack it."""
    kinds = ("float16", "float32", "float64", "int8", "uint8", "int64")
    columns = {kind: np.ones((5, 3), kind) for kind in kinds}
    (tmp_path / "rows").write_bytes(b"".join(map(bytes, serialized(record_batch(columns)))))
    code = """
import pathlib
import sys
from tfapp.feed.columns import arrays_of
for name, found in arrays_of(pathlib.Path(sys.argv[1]).read_bytes()).items():
    assert (found.dtype.name, found.shape, found.sum()) == (name, (5, 3), 15)
print("pandas" in sys.modules)
"""
    done = programs.python("-c", code, tmp_path / "rows")
    assert (done.stdout, done.stderr) == ("False\n", "")
