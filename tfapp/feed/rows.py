"""Converts the elements of an RDD to Arrow record batches. This module is shipped to executors.

a Row or a named tuple, a dict        one column for each field
a list or tuple of numbers, an array  the column "value"
any other tuple or list               the columns "0", "1", ... of its items
a number, a text, bytes               the column "value"
"""

from __future__ import annotations

import abc
import itertools
import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import pyarrow as pa

from tfapp.errors import FeedError
from tfapp.feed.columns import PIECE, column_of, element_type, numpy_type

MOST = 1 << 14  # most rows of a batch
FEW = 64  # rows of the first batch, which shows how large rows are
PATIENCE = 0.5  # seconds after which the rows of a slow source are sent in a smaller batch
VALUE = "value"
_NUMBERS = (bool, int, float, np.number, np.bool_)


class Packed(abc.ABC):
    """Consecutive elements of an RDD, all numbers, that are still in their pickle."""

    def __init__(self, rows: int, kinds: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]):
        """`kinds`: column -> (type of its numbers, shape of one row)."""
        self.rows, self.kinds = rows, kinds

    def __len__(self) -> int:
        return self.rows

    def rows_of_a_batch(self) -> int:
        """How many such rows make a batch."""
        each = sum(kind.itemsize * math.prod(shape) for kind, shape in self.kinds.values())
        return max(1, min(MOST, PIECE // max(1, each)))

    @abc.abstractmethod
    def fill(self, arrays: Mapping[str, np.ndarray[Any, Any]], first: int) -> None:
        """Copies the numbers to the rows from `first` on of `arrays`, which have the shape
        (rows, numbers of a row)."""


Run = Union[list[Any], Packed]  # consecutive elements of an RDD


def batches_of(elements: Iterable[Any], part: int) -> Iterator[pa.RecordBatch]:
    """Converts the elements of partition `part` to batches of about PIECE bytes. FeedError if an
    element is not of the same kind as the first."""
    rest = iter(elements)
    return _batches(lambda most: list(itertools.islice(rest, most)), part)


def batches_of_runs(runs: Iterator[Run], part: int) -> Iterator[pa.RecordBatch]:
    """Like `batches_of`, for elements that arrive several at a time."""
    return _batches(lambda _: next(filter(len, runs), []), part)


def _batches(take: Callable[[int], Run], part: int) -> Iterator[pa.RecordBatch]:
    """`take(most)` returns about `most` of the next elements, and none at the end."""
    first, count = 0, FEW
    kinds: dict[str, pa.DataType] = {}  # the types of numbers in the first batch, by column
    run = take(FEW)
    while len(run):
        if isinstance(run, Packed):
            count = run.rows_of_a_batch()
        found, rows, run = [run], len(run), []
        patient = time.monotonic() + PATIENCE
        while rows < count and time.monotonic() < patient:
            run = take(min(FEW, count - rows))
            if not len(run) or not alike(run, found[0]) or rows + len(run) > count:
                break
            found.append(run)
            rows, run = rows + len(run), []
        batch = _batch(_merged(found), first, part, kinds)
        kinds = kinds or {field.name: element_type(field)[0] for field in batch.schema}
        yield batch
        first += rows
        count = max(1, min(MOST, PIECE * rows // max(1, batch.nbytes)))
        if not len(run):
            run = take(min(FEW, count))


def alike(run: Run, other: Run) -> bool:
    """Whether both can be in one batch."""
    if isinstance(run, Packed) and isinstance(other, Packed):
        return run.kinds is other.kinds or run.kinds == other.kinds
    return type(run) is type(other)


def _merged(runs: Sequence[Run]) -> list[Any] | dict[str, Any]:
    """The elements of runs that are alike: a list, or arrays by column."""
    packed = [run for run in runs if isinstance(run, Packed)]
    lists = [run for run in runs if isinstance(run, list)]
    return arrays_of(packed) if packed else list(itertools.chain.from_iterable(lists))


def arrays_of(runs: Sequence[Packed]) -> dict[str, np.ndarray[Any, Any]]:
    """The numbers of runs that are alike, by column. Arrays have the shape (rows, ...)."""
    rows = sum(map(len, runs))
    shaped = {name: np.empty((rows, *shape), of) for name, (of, shape) in runs[0].kinds.items()}
    flat = {name: array.reshape(rows, -1) for name, array in shaped.items()}
    first = 0
    for run in runs:
        run.fill(flat, first)
        first += len(run)
    return shaped


def batch_of(elements: Sequence[Any]) -> pa.RecordBatch:
    """Converts the first elements of an RDD to one batch. FeedError."""
    return _batch(list(elements), 0, 0, {})


def _batch(
    elements: list[Any] | Mapping[str, Any], first: int, part: int, kinds: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    """Converts elements, or their columns, to one batch. `first`: the number of the first one in
    partition `part`. `kinds`: the types of numbers in earlier batches, by column. FeedError."""
    columns = _lists(elements, first, part) if isinstance(elements, list) else elements
    arrays = {
        name: _column(name, found, first, part, kinds.get(name)) for name, found in columns.items()
    }
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def _lists(chunk: list[Any], first: int, part: int) -> dict[str, list[Any]]:
    """The values of elements, by column."""
    names = names_of(chunk[0])
    if names is None:
        return {VALUE: chunk}
    try:
        if isinstance(chunk[0], Mapping):
            return {name: [one[name] for one in chunk] for name in names}
        if any(len(one) != len(names) for one in chunk):
            raise ValueError("its elements have different numbers of items")
        return dict(zip(names, map(list, zip(*chunk))))
    except (LookupError, TypeError, ValueError) as error:
        raise FeedError(
            f"partition {part}, rows from {first} on: an element is not like the first: {error}"
        ) from None


def names_of(element: Any) -> list[str] | None:
    """The names of the columns of an element; None if it is one value, in the column VALUE."""
    if isinstance(element, Mapping):
        return [str(name) for name in element]
    if not isinstance(element, (tuple, list)):
        return None
    fields = getattr(element, "__fields__", None) or getattr(element, "_fields", None)
    if fields:
        return [str(name) for name in fields]
    if element and all(isinstance(item, _NUMBERS) for item in element):
        return None
    return [str(number) for number in range(len(element))]


def _column(name: str, values: Any, first: int, part: int, kind: pa.DataType | None) -> pa.Array:
    """Converts the values of a column. `values`: a list or an array. `kind`: the type of numbers in
    earlier batches, to which whole numbers are converted."""
    try:
        if isinstance(values, np.ndarray) or isinstance(values[0], np.ndarray):
            array = np.asarray(values)
            dtype = array.dtype if kind is None else numpy_type(kind)
            return column_of(array.astype(dtype, casting="safe", copy=False))
        if isinstance(values[0], (list, tuple)):
            packed = _packed(values, kind)
            # Arrow is faster than NumPy with what is not as simple.
            return pa.array(values) if packed is None else column_of(packed)
        column = pa.array([_plain(value) for value in values])
        return column if kind is None else column.cast(kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        for row, value in enumerate(values):
            if _shape(value) != _shape(values[0]):
                raise FeedError(
                    f"column {name!r}, row {first + row} of partition {part}: it has the shape "
                    f"{_shape(value)} where the first of its kind has {_shape(values[0])}"
                ) from None
        raise FeedError(
            f"column {name!r}, partition {part}, rows from {first} on: they make no tensor: {error}"
        ) from None


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a value; None for ragged lists."""
    try:
        return np.shape(value)
    except ValueError:
        return None


def _packed(values: list[Any], kind: pa.DataType | None) -> np.ndarray[Any, Any] | None:
    """Packs lists into an array, in a third of the time that Arrow takes. None unless all lists
    have the length of the first one and contain only floats, or only whole numbers."""
    code = None
    if kind is not None:
        code = "d" if kind == pa.float64() else "q" if kind == pa.int64() else None
    elif len(kinds := set(map(type, values[0]))) == 1:
        code = _CODES.get(kinds.pop())
    if code is None:
        return None
    width = len(values[0])
    array = np.empty((len(values), width), code)
    row = struct.Struct(f"{width}{code}")
    data = array.data.cast("B")
    try:
        for number, value in enumerate(values):
            row.pack_into(data, number * row.size, *value)
    except (struct.error, TypeError, OverflowError):
        return None
    return array


_CODES = {float: "d", int: "q"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return bytes(value) if isinstance(value, bytearray) else value
