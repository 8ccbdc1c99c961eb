"""Converts the elements of an RDD to Arrow record batches. This module is shipped to executors.

a Row or a named tuple, a dict        one column for each field
a list or tuple of numbers, an array  the column "value"
any other tuple or list               the columns "0", "1", ... of its items
a number, a text, bytes               the column "value"
"""

from __future__ import annotations

import itertools
import math
import pickle
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import pyarrow as pa

from tfapp.errors import FeedError
from tfapp.feed.columns import (
    PIECE,
    UNFIT,
    column_of,
    element_type,
    is_pickled,
    numpy_type,
    pickled,
)

MOST = 1 << 14  # most rows of a batch
FEW = 64  # rows of the first batch, which shows how large rows are
PATIENCE = 0.5  # seconds after which the rows of a slow source are sent in a smaller batch
VALUE = "value"
_NUMBERS = (bool, int, float, np.number, np.bool_)


Kinds = Mapping[str, tuple["np.dtype[Any]", "tuple[int, ...]"]]
Fill = Callable[[Mapping[str, "np.ndarray[Any, Any]"], int], None]


class Packed:
    """Consecutive elements of an RDD, all numbers, that are still in their pickle."""

    def __init__(self, rows: int, kinds: Kinds, fill: Fill, pickle: bytes):
        """`kinds`: column -> (type of its numbers, shape of one row). `fill(arrays, first)`: copies
        the numbers to the rows from `first` on of `arrays`, which have the shape (rows, numbers of
        a row). `pickle`: the list of the elements."""
        self.rows, self.kinds, self.fill, self.pickle = rows, kinds, fill, pickle

    def __len__(self) -> int:
        return self.rows

    def rows_of_a_batch(self) -> int:
        """How many such rows make a batch."""
        each = sum(kind.itemsize * math.prod(shape) for kind, shape in self.kinds.values())
        return max(1, min(MOST, PIECE // max(1, each)))


Run = Union[list[Any], Packed]  # consecutive elements of an RDD


class Elements:
    """The elements of partition `part` as batches of about PIECE bytes, which can be iterated once.
    FeedError if an element makes no columns, or not those of the first one; but if `objects` is set
    its batch and all that follow travel as pickles, each of which has (names, values), see
    `_with_names`."""

    def __init__(self, take: Callable[[int], Run], part: int, columns: Sequence[str] | None):
        """`take(most)` returns about `most` of the next elements, and none at the end. `columns`:
        the columns to convert, None for all."""
        self._take, self._part = take, part
        self._columns = _Columns(tuple(columns), False) if columns else None
        self._kinds: dict[str, pa.DataType] = {}  # of numbers in the first batch, by column
        self._last: list[Run] = []
        self.objects = self._are_pickled = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        first, count = 0, FEW
        run = self._take(FEW)
        while len(run):
            if isinstance(run, Packed):
                count = run.rows_of_a_batch()
            found, rows, run = [run], len(run), []
            patient = time.monotonic() + PATIENCE
            while rows < count and time.monotonic() < patient:
                run = self._take(min(FEW, count - rows))
                if not len(run) or not alike(run, found[0]) or rows + len(run) > count:
                    break
                found.append(run)
                rows, run = rows + len(run), []
            self._last = found
            batch = self._batch(_Place(first, self._part))
            yield batch
            first += rows
            count = max(1, min(MOST, PIECE * rows // max(1, batch.nbytes)))
            if not len(run):
                run = self._take(min(FEW, count))

    def pickles(self) -> pa.RecordBatch:
        """The last batch as pickles. All that follow are pickles too."""
        self._are_pickled = True
        elements = itertools.chain.from_iterable(map(_elements, self._last))
        return pickled(map(_with_names, elements))

    def _batch(self, place: _Place) -> pa.RecordBatch:
        if self._are_pickled:
            return self.pickles()
        try:
            batch = batch_of(_merged(self._last), place, self._columns, self._kinds)
            kinds = {field.name: element_type(field)[0] for field in batch.schema}
        except FeedError:
            if not self.objects:
                raise
            return self.pickles()
        self._columns = self._columns or _Columns(tuple(batch.schema.names), True)
        self._kinds = self._kinds or kinds
        return batch


def checked_or_pickles(
    batches: Iterable[pa.RecordBatch], checked: Callable[[pa.RecordBatch, int], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields `checked(batch, number of its first row)` for each batch that is not empty; for
    `Elements` with `objects`, pickles where it raises FeedError."""
    first = 0
    for batch in (each for each in batches if each.num_rows):
        found = batch
        if not is_pickled(batch.schema.names):
            try:
                found = checked(batch, first)
            except FeedError:
                if not isinstance(batches, Elements) or not batches.objects:
                    raise
                found = batches.pickles()
        yield found
        first += batch.num_rows


def _elements(run: Run) -> list[Any]:
    return list(pickle.loads(run.pickle)) if isinstance(run, Packed) else run


def _with_names(element: Any) -> tuple[Any, Any]:
    """The names of an element's values, and the values; (None, the element) if it has no names or
    is a dict. The classes of Rows and named tuples may be missing where it is read."""
    if isinstance(element, tuple) and (names := keys_of(element)) is not None:
        return tuple(names), tuple(element)
    return None, element


def batches_of(
    elements: Iterable[Any], part: int, columns: Sequence[str] | None = None
) -> Elements:
    """Converts the elements of partition `part` to batches of about PIECE bytes. `columns`: the
    columns to convert, None for all. FeedError if an element is not of the same kind as the
    first."""
    rest = iter(elements)
    return Elements(lambda most: list(itertools.islice(rest, most)), part, columns)


def batches_of_runs(
    runs: Iterator[Run], part: int, columns: Sequence[str] | None = None
) -> Elements:
    """Like `batches_of`, for elements that arrive several at a time."""
    return Elements(lambda _: next(filter(len, runs), []), part, columns)


class _Place(NamedTuple):
    """The place of an element: its number in the partition `part`."""

    row: int
    part: int

    def error(self, words: str, more: int = 0) -> FeedError:
        """An error about the element `more` places further on."""
        return FeedError(f"row {self.row + more} of partition {self.part}: {words}")


_FIRST = _Place(0, 0)


class _Columns(NamedTuple):
    """The columns that elements must have. `only`: whether they may have no others."""

    names: tuple[str, ...]
    only: bool

    def misfit(self, names: Sequence[str]) -> str:
        """The words for what is wrong with an element that has `names`, "" for nothing."""
        lacking = [name for name in self.names if name not in names]
        more = [name for name in names if name not in self.names] if self.only else []
        if not lacking and not more:
            return ""
        if self.only:
            wrong = f"there is no {lacking[0]!r}" if lacking else f"{more[0]!r} is new"
            had = f"it has {_listed(names)} where the first element has {_listed(self.names)}"
            return f"{had}: {wrong}"
        return f"the program asks for column {lacking[0]!r}, and the data has {_listed(names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


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


def batch_of(
    elements: Sequence[Any] | Mapping[str, Any],
    place: _Place = _FIRST,
    columns: _Columns | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
) -> pa.RecordBatch:
    """Converts elements, or their columns, to one batch. `place`: that of the first one. `columns`:
    None for those of the first element. `kinds`: the types of numbers in earlier batches, by
    column. FeedError."""
    names = tuple(elements) if isinstance(elements, Mapping) else names_of(elements[0], place)
    columns = columns or _Columns(names, True)
    if words := columns.misfit(names):
        raise place.error(words)
    found = elements if isinstance(elements, Mapping) else _lists(elements, columns, place)
    kinds = kinds or {}
    arrays = [_column(name, found[name], place, kinds.get(name)) for name in columns.names]
    return pa.record_batch(arrays, names=list(columns.names))


def _lists(chunk: Sequence[Any], columns: _Columns, place: _Place) -> Mapping[str, Any]:
    """The values of elements, by column. Values that have names are found by their names."""
    alike = _lists_of_alike(chunk)
    if alike is not None:
        return alike
    keys, first = keys_of(chunk[0]), names_of(chunk[0])
    found: dict[str, list[Any]] = {name: [] for name in columns.names}
    for row, one in enumerate(chunk):
        names = names_of(one, place, row)
        if (keys_of(one) is None) != (keys is None):
            raise place.error(_WITH_NAMES if keys is None else _WITHOUT, row)
        if keys is None and first != (VALUE,) and isinstance(one, (tuple, list)):
            names = first  # its items may all be numbers
            if len(one) != len(first):
                words = f"it has {len(one)} items where the first element has {len(first)}"
                raise place.error(words, row)
        if words := columns.misfit(names):
            raise place.error(words, row)
        values = values_of(one, names)
        for name, column in found.items():
            column.append(values[name])
    return found


def _lists_of_alike(chunk: Sequence[Any]) -> Mapping[str, Any] | None:
    """The values of elements of one type that have the same names in the same order, by column.
    None if they are not like that."""
    first, kind = chunk[0], type(chunk[0])
    types = set(map(type, chunk))
    if not any(issubclass(each, (tuple, list, Mapping)) for each in types):
        return {VALUE: chunk}
    if types != {kind} or (isinstance(first, Mapping) and kind is not dict):
        return None
    keys, names = keys_of(first), names_of(first)
    if any(len(one) != len(first) for one in chunk):
        return None
    if kind is dict:
        try:
            return {str(key): [one[key] for one in chunk] for key in first}
        except KeyError:
            return None
    if keys is None and names == (VALUE,):
        return {VALUE: chunk}
    if hasattr(first, "__fields__") and any(keys_of(one) != keys for one in chunk):
        return None
    return dict(zip(names, map(list, zip(*chunk))))


_WITH_NAMES = "its values have names, and those of the first element have none"
_WITHOUT = "its values have no names, and those of the first element have"


def keys_of(element: Any) -> Sequence[Any] | None:
    """The names of an element's values, as the element has them; None if they have none."""
    if isinstance(element, tuple):
        found = getattr(element, "__fields__", None)
        return found if found is not None else getattr(element, "_fields", None)
    return tuple(element) if isinstance(element, Mapping) else None


def names_of(element: Any, place: _Place = _FIRST, more: int = 0) -> tuple[str, ...]:
    """The names of the columns of an element; (VALUE,) if it is one value. FeedError if it is empty
    or has two values of one name."""
    keys = keys_of(element)
    if keys is None and not isinstance(element, (tuple, list)):
        return (VALUE,)
    if not len(element):
        raise place.error(f"it is empty: {element!r}", more)
    if keys is None:
        is_value = all(isinstance(item, _NUMBERS) for item in element)
        return (VALUE,) if is_value else tuple(map(str, range(len(element))))
    names = tuple(map(str, keys))
    if len(set(names)) < len(names) or len(names) != len(element):
        words = f"it has {len(element)} values with the names {_listed(names)}; each needs its own"
        raise place.error(words, more)
    return names


def values_of(element: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """The values of an element, by column. `names`: its columns, in the order of `names_of`."""
    if keys_of(element) is None and tuple(names) == (VALUE,):
        return {VALUE: element}
    return dict(zip(names, element.values() if isinstance(element, Mapping) else element))


def _column(name: str, values: Any, place: _Place, kind: pa.DataType | None) -> pa.Array:
    """Converts the values of a column. `values`: a list or an array. `kind`: the type of numbers in
    earlier batches, to which whole numbers are converted."""
    try:
        return _converted(values, kind)
    except UNFIT as error:
        row = _first_misfit(values, kind)
        shape, wanted = _shape(values[row]), _shape(values[0])
        if shape != wanted:
            words = f"it has the shape {shape} where the first of its kind has {wanted}"
        else:
            words = f"{type(values[row]).__name__} makes no tensor here: {error}"
        raise FeedError(
            f"column {name!r}, row {place.row + row} of partition {place.part}: {words}"
        ) from None


def _converted(values: Any, kind: pa.DataType | None) -> pa.Array:
    if isinstance(values, np.ndarray) or isinstance(values[0], np.ndarray):
        array = np.asarray(values)
        dtype = array.dtype if kind is None else numpy_type(kind)
        return column_of(array.astype(dtype, casting="safe", copy=False))
    if isinstance(values[0], (list, tuple)):
        packed = _packed(values, kind)
        # Arrow is faster than NumPy with what is not as simple.
        return pa.array(values) if packed is None else column_of(packed)
    if isinstance(values[0], (set, frozenset)):  # which Arrow takes for a list
        raise TypeError("it has no order")
    column = pa.array([_plain(value) for value in values])
    return column if kind is None else column.cast(kind)


def _first_misfit(values: Any, kind: pa.DataType | None) -> int:
    """The number of the first value that cannot be converted together with those before it, where
    not all can."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _converted(values[:middle], kind)
            good = middle
        except UNFIT:
            bad = middle
    return good


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
