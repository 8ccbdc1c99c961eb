"""Elements of an RDD as Arrow record batches. It travels to executors.

a Row or a named tuple, a dict        one column for each field
a list or tuple of numbers, an array  the column "value"
any other tuple or list               the columns "0", "1", ... of its items
a number, a text, bytes               the column "value"
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tfapp.errors import FeedError
from tfapp.feed.columns import PIECE, column_of, element_type, numpy_type

MOST = 1 << 14  # rows of a batch
FEW = 64  # rows of the first batch, which shows how large they are
PATIENCE = 0.5  # seconds after which rows of a slow source go on in a smaller batch
VALUE = "value"
_NUMBERS = (bool, int, float, np.number, np.bool_)


def batches_of(elements: Iterable[Any], part: int) -> Iterator[pa.RecordBatch]:
    """The elements of partition `part`, which are all of the first one's kind, in batches of some
    PIECE bytes. FeedError."""
    rest = iter(elements)
    first, count = 0, FEW
    kinds: dict[str, pa.DataType] = {}  # of the first batch's columns
    while chunk := list(itertools.islice(rest, min(FEW, count))):
        patient = time.monotonic() + PATIENCE
        while len(chunk) < count and time.monotonic() < patient:
            more = list(itertools.islice(rest, min(FEW, count - len(chunk))))
            if not more:
                break
            chunk += more
        batch = _batch(chunk, first, part, kinds)
        kinds = kinds or {field.name: element_type(field)[0] for field in batch.schema}
        yield batch
        first += len(chunk)
        count = max(1, min(MOST, PIECE * len(chunk) // max(1, batch.nbytes)))


def _batch(
    chunk: list[Any], first: int, part: int, kinds: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    names = _names(chunk[0])
    if names is None:
        columns = {VALUE: chunk}
    else:
        try:
            if isinstance(chunk[0], Mapping):
                columns = {name: [one[name] for one in chunk] for name in names}
            else:
                if any(len(one) != len(names) for one in chunk):
                    raise ValueError("its elements have different numbers of items")
                columns = dict(zip(names, map(list, zip(*chunk))))
        except (KeyError, TypeError, ValueError) as error:
            raise FeedError(
                f"partition {part}, rows from {first} on: an element is not like the first: {error}"
            ) from None
    arrays = {
        name: _column(name, found, first, part, kinds.get(name)) for name, found in columns.items()
    }
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def _names(element: Any) -> list[str] | None:
    """Its columns, None for the one that is called VALUE."""
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


def _column(
    name: str, values: list[Any], first: int, part: int, kind: pa.DataType | None
) -> pa.Array:
    """`kind`: of the numbers in earlier batches. Whole numbers become floats where these were."""
    try:
        if isinstance(values[0], np.ndarray):
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
            if np.shape(value) != np.shape(values[0]):
                raise FeedError(
                    f"column {name!r}, row {first + row} of partition {part}: it has the shape "
                    f"{np.shape(value)} where the first of its kind has {np.shape(values[0])}"
                ) from None
        raise FeedError(
            f"column {name!r}, partition {part}, rows from {first} on: they make no tensor: {error}"
        ) from None


def _packed(values: list[Any], kind: pa.DataType | None) -> np.ndarray[Any, Any] | None:
    """Lists of as many numbers as the first one has, if its are all floats or all whole numbers.
    None for others. It takes a third of the time that Arrow does."""
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
