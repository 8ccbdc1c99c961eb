"""Elements of an RDD as Arrow record batches. It travels to executors.

a Row or a named tuple, a dict        one column for each field
a list or tuple of numbers, an array  the column "value"
any other tuple or list               the columns "0", "1", ... of its items
a number, a text, bytes               the column "value"
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tfapp.feed.wire import FeedError

ROWS = 1024  # of a batch
VALUE = "value"
_NUMBERS = (bool, int, float, np.number, np.bool_)


def batches_of(elements: Iterable[Any], part: int) -> Iterator[pa.RecordBatch]:
    """The elements of partition `part`, which are all of the first one's kind. FeedError."""
    rest = iter(elements)
    first = 0
    while chunk := list(itertools.islice(rest, ROWS)):
        yield _batch(chunk, first, part)
        first += len(chunk)


def _batch(chunk: list[Any], first: int, part: int) -> pa.RecordBatch:
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
    arrays = {name: _column(name, found, first, part) for name, found in columns.items()}
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


def _column(name: str, values: list[Any], first: int, part: int) -> pa.Array:
    try:
        if isinstance(values[0], np.ndarray):
            array = np.asarray(values)
            column = pa.array(array.reshape(-1))
            for size in reversed(array.shape[1:]):
                column = pa.FixedSizeListArray.from_arrays(column, size)
            return column
        if isinstance(values[0], (list, tuple)):
            return pa.array(values)  # three times as fast as through NumPy
        return pa.array([_plain(value) for value in values])
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


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return bytes(value) if isinstance(value, bytearray) else value
