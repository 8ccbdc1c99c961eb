"""Converts columns of Arrow record batches to NumPy arrays and back. This module is shipped to
executors and to programs, which need pyarrow for it."""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tfapp.errors import FeedError

PIECE = 1 << 22  # most bytes of a piece, the rows that are sent in one message
TEXT = "string"  # the type of a column of texts or bytes
ANSWER = "answer"  # the column of answers that have no name
PICKLES = "(pickles)"  # the column of objects that travel as pickles
# The errors of Arrow, NumPy and Python for values that are no column.
UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


class Feature(NamedTuple):
    """A column. `dtype`: NumPy's name of its type, or TEXT. `shape`: the shape of one row's value,
    () for a number."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Feature:
        """The feature from the result of `_asdict`, after its way through JSON."""
        return cls(data["name"], data["dtype"], tuple(data["shape"]))


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy's type for an Arrow type of numbers. Arrow's own to_pandas_dtype may need pandas."""
    return np.dtype(_NUMPY_NAMES.get(str(kind), str(kind)))


_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def element_type(field: pa.Field) -> tuple[pa.DataType, int]:
    """The type of the numbers or texts in a column, and the depth of the lists around them.
    FeedError for a type that cannot be a tensor."""
    kind, depth = field.type, 0
    while any(is_list(kind) for is_list in _LISTS):
        kind, depth = kind.value_type, depth + 1
    if not _is_number(kind) and (depth or not any(is_text(kind) for is_text in _TEXTS)):
        raise FeedError(no_tensor(field.name, field.type))
    return kind, depth


def no_tensor(column: str, kind: object) -> str:
    """The error message for a column of a type that cannot be a tensor."""
    return (
        f"column {column!r} is {kind}, which makes no tensor: there are numbers, booleans, texts, "
        "bytes, and arrays of numbers. Convert it, or name the other columns with columns="
    )


def features_of(batch: pa.RecordBatch) -> tuple[Feature, ...]:
    """The columns of a batch, with the shapes of its first row, which must exist. FeedError for a
    type that cannot be a tensor."""
    found = []
    for field, column in zip(batch.schema, batch.columns):
        kind, depth = element_type(field)
        shape: list[int] = []
        values = column.slice(0, 1)
        for _ in range(depth):
            values = values.flatten()
            shape.append(len(values) // max(1, int(np.prod(shape))))
        dtype = numpy_type(kind).name if _is_number(kind) else TEXT
        found.append(Feature(field.name, dtype, tuple(shape)))
    return tuple(found)


def check(batch: pa.RecordBatch, features: Sequence[Feature], first: int, part: int) -> None:
    """Raises FeedError if a row has a null or another shape than `features`. `first`: the number of
    the batch's first row in partition `part`."""
    for feature, field, column in zip(features, batch.schema, batch.columns):
        values, width = column, 1
        rank = element_type(field)[1]
        if rank != len(feature.shape):
            words = f"has the rank {rank} where the first row has {len(feature.shape)}"
            raise _bad(feature, first, part, words)
        if column.null_count:
            row = first + int(np.flatnonzero(column.is_null().to_numpy(False))[0])
            raise _bad(feature, row, part, "is null; tensors have none: fill or drop it")
        if 0 in feature.shape:
            raise _bad(feature, first, part, "is an empty array, which makes no tensor")
        for size in feature.shape:
            width *= size
            if not pa.types.is_fixed_size_list(values.type):
                lengths = np.diff(values.offsets.to_numpy())
                wrong = np.flatnonzero(lengths != size)
                if len(wrong):
                    row = first + int(wrong[0]) // (width // size)
                    had = int(lengths[wrong[0]])
                    raise _bad(
                        feature, row, part, f"has {had} values where the first row has {size}"
                    )
            elif values.type.list_size != size:
                raise _bad(feature, first, part, f"has {values.type.list_size} values, not {size}")
            values = values.flatten()
            if values.null_count:
                place = int(np.flatnonzero(values.is_null().to_numpy(False))[0])
                raise _bad(feature, first + place // width, part, "has a null in it")


def _bad(feature: Feature, row: int, part: int, what: str) -> FeedError:
    return FeedError(f"column {feature.name!r}, row {row} of partition {part}: it {what}")


def digest_of(batch: pa.RecordBatch, first: int) -> int:
    """A digest of the content of all rows and of their places. Digests of consecutive batches can
    be added. `first`: the number of the batch's first row in its partition.

    A row is a sequence of numbers below 2**32, which are multiplied by random 64-bit numbers and
    added: two different rows have the same sum once in 2**32 at most (multilinear hashing,
    https://arxiv.org/abs/1202.4961). It takes half the time of a checksum of zlib for long rows,
    and a tenth for short ones, because no Python code runs for a row."""
    words = [each for column in batch.columns for each in _words(column)]
    keys = _keys(sum(each.shape[1] for each in words).bit_length())
    sums, at = (first + 1 + np.arange(batch.num_rows, dtype=np.uint64)) * _STEPS[0], 0
    for each in words:
        sums += np.einsum("ij,j->i", each, keys[at : at + each.shape[1]])
        at += each.shape[1]
    # Mixed as in SplitMix64, or rows could change places unnoticed.
    sums = (sums ^ (sums >> _SHIFTS[0])) * _STEPS[1]
    sums = (sums ^ (sums >> _SHIFTS[1])) * _STEPS[2]
    return int(np.sum(sums ^ (sums >> _SHIFTS[2]), dtype=np.uint64))


_STEPS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_SHIFTS = np.array([30, 27, 31], np.uint64)


_known_keys: dict[int, np.ndarray[Any, Any]] = {}  # no functools.cache: it would not travel


def _keys(bits: int) -> np.ndarray[Any, Any]:
    """2**bits numbers by which words are multiplied, the same in every process."""
    if bits not in _known_keys:
        # NumPy guarantees the sequence of RandomState for all versions.
        drawn = np.random.RandomState(1202).bytes(8 << bits)
        _known_keys[bits] = np.frombuffer(drawn, np.uint64)
    return _known_keys[bits]


def _words(column: pa.Array) -> list[np.ndarray[Any, Any]]:
    """The content of a column as numbers below 2**32, in arrays of the shape (rows, ...)."""
    if any(is_text(column.type) for is_text in _TEXTS):
        column = column.cast(pa.large_binary())
        _, places, content = column.buffers()
        ends = np.frombuffer(places, np.int64, len(column) + 1, 8 * column.offset)
        text, each = memoryview(content or b""), ends.tolist()
        sums = [zlib.crc32(text[begin:end]) for begin, end in zip(each, each[1:])]
        return [np.stack([np.array(sums, np.uint32), np.diff(ends).astype(np.uint32)], axis=1)]
    values = _array_of(column)
    rows, size = len(values), values.dtype.itemsize * math.prod(values.shape[1:])
    data = values.reshape(-1).view(np.uint8)
    whole, rest = divmod(size, 4)
    found = [
        np.ndarray((rows, whole), np.uint32, data, 0, (size, 4)),
        np.ndarray((rows, rest), np.uint8, data, size - rest, (size, 1)),
    ]
    return [each for each in found if each.size]


def serialized(batch: pa.RecordBatch) -> tuple[pa.Buffer, pa.Buffer]:
    """A batch as an Arrow stream, in two parts: schema and rows."""
    return batch.schema.serialize(), batch.serialize()


def size_of(rows: pa.RecordBatch) -> int:
    """The size of the rows in bytes, at least one for each row."""
    return max(rows.num_rows, rows.nbytes)


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most PIECE bytes, or of one row; none is empty."""
    for batch in batches:
        each = max(1, size_of(batch) // max(1, batch.num_rows))
        count = max(1, PIECE // each)
        for at in range(0, batch.num_rows, count):
            yield batch.slice(at, count)


def arrays_of(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The columns, by name, of an Arrow stream with one batch. Arrays have the shape (rows, ...);
    those of texts and bytes have the type object."""
    with pa.ipc.open_stream(data) as stream:
        return arrays_of_batch(stream.read_next_batch())


def arrays_of_batch(batch: pa.RecordBatch) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a batch, by name. All of its rows must have the same shape."""
    return dict(zip(batch.schema.names, map(_array_of, batch.columns)))


def _array_of(column: pa.Array) -> np.ndarray[Any, Any]:
    shape, values = [len(column)], column
    while pa.types.is_nested(values.type):
        outer = max(1, len(values))
        values = values.flatten()
        shape.append(len(values) // outer)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        # Arrow's own to_numpy imports pandas, which takes a quarter of a second and 50 MiB.
        dtype = numpy_type(values.type)
        start = values.offset * dtype.itemsize
        found = np.frombuffer(values.buffers()[1] or b"", dtype, len(values), start)
    else:
        found = values.to_numpy(zero_copy_only=False)
    return found.reshape(shape)


def taken(arrays: Mapping[str, Any], which: Any) -> dict[str, Any]:
    """Some rows of arrays. `which`: a slice, or an array of row numbers."""
    return {name: values[which] for name, values in arrays.items()}


def joined(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The rows of several arrays by name, one after the other. All parts have the same columns."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def record_batch(arrays: Mapping[str, Any]) -> pa.RecordBatch:
    """Arrays of the shape (rows, ...) as a record batch. Further dimensions become lists of fixed
    size. FeedError if Arrow has no type for them."""
    columns = []
    for name, values in arrays.items():
        try:
            columns.append(column_of(np.asarray(values)))
        except UNFIT as error:
            raise FeedError(f"{name!r} is no column of Arrow: {error}") from None
    return pa.record_batch(columns, names=list(arrays))


def column_of(array: np.ndarray[Any, Any]) -> pa.Array:
    """An array of the shape (rows, ...) as an Arrow column."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.isnative and flat.dtype.kind in "iuf":
        # pa.array imports pandas, which takes a second.
        kind = pa.from_numpy_dtype(flat.dtype)
        column = pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(flat)])
    else:
        column = pa.array(flat)
    for size in reversed(array.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def pickled(values: Iterable[Any]) -> pa.RecordBatch:
    """Objects as the column PICKLES. FeedError if one cannot be pickled."""
    found = []
    for value in values:
        try:
            found.append(pickle.dumps(value))
        except Exception as error:  # of any class
            raise FeedError(f"a {type(value).__name__} cannot be pickled: {error}") from None
    return pa.record_batch([pa.array(found, pa.large_binary())], names=[PICKLES])


def is_pickled(names: Iterable[str]) -> bool:
    """Whether columns with these names are objects that travel as pickles."""
    return list(names) == [PICKLES]


def value_batch(values: Sequence[Any]) -> pa.RecordBatch:
    """One value for each row as the column ANSWER. Values can also be arrays, or tensors. FeedError
    if Arrow has no type for them."""
    plain = [np.asarray(each).tolist() if hasattr(each, "__array__") else each for each in values]
    try:
        return pa.record_batch([pa.array(plain)], names=[ANSWER])
    except UNFIT as error:
        raise FeedError(f"the program's results are no column of Arrow: {error}") from None
