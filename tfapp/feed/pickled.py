"""Numbers out of the pickles in which Spark keeps the elements of an RDD, without an object of
Python for each. It travels to executors.

The pickles of elements that are alike differ in the bytes of their numbers alone; the other bytes
say the same each time. Those bytes, and where the numbers are, are a layout. It is learned from the
first elements of a pickle that is unpickled as always, and proven on numbers drawn at random.
Pickles with other bytes are unpickled.
"""

from __future__ import annotations

import itertools
import pickletools
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfapp.feed.rows import FEW, VALUE, Columns, Elements, columns_of, names_of

_HEAD = b"]\x94("  # after the protocol: a list, remembered, and a mark
_TAIL = b"e."
_NEXT_GROUP = b"e("
_GROUP = 1000  # elements between two marks
_FRAME = 0x95
_LEARNED_FROM = 3  # elements: the first names classes, which the others refer to
_KEPT = 4  # layouts
_TRIES = 4  # pickles of a partition that are learned from

_kept: list[_Layout] = []  # of this Python worker, the last one first


def runs(pickles: Iterable[bytes], loads: Callable[[bytes], Sequence[Any]]) -> Iterator[Elements]:
    """The elements of each pickle. `loads`: how one is unpickled. The first FEW elements are, in
    any case: what they are decides what all are."""
    tries, seen = _TRIES, 0
    for data in pickles:
        body = _without_frames(data)
        found: Elements | None = _columns_of(body) if body else None
        if found is None or seen < FEW:
            elements = list(loads(data))
            if found is None and body and tries:
                tries -= 1
                _keep(_learn(body, elements, loads))
            found = elements
        if len(found):
            yield found
        seen += len(found)


def _columns_of(body: bytes) -> Columns | None:
    """The elements of a pickle without frames, where there is a layout for it."""
    for place, layout in enumerate(_kept):
        if (found := layout.columns(body)) is not None:
            _kept.insert(0, _kept.pop(place))
            return found
    return None


def _keep(layout: _Layout | None) -> None:
    if layout is not None:
        _kept.insert(0, layout)
        del _kept[_KEPT:]


class _Numbers(NamedTuple):
    """Numbers of one kind at equal distances in an element's bytes. `first`: the first one's place
    in the column's row."""

    at: int
    length: int
    distance: int
    kind: np.dtype[Any]
    first: int


class _Column(NamedTuple):
    """`kind` and `shape`: of its row."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    numbers: tuple[_Numbers, ...]


class _Part:
    """The bytes of one element, and where its numbers are."""

    def __init__(self, data: bytes, columns: Mapping[str, _Column]):
        self.size = len(data)
        self.columns = columns
        same = np.ones(len(data), bool)
        for column in columns.values():
            for one in column.numbers:
                places = one.at + one.distance * np.arange(one.length)
                for byte in range(one.kind.itemsize):
                    same[places + byte] = False
        self._places = np.flatnonzero(same)
        self._bytes = np.frombuffer(data, np.uint8)[self._places]

    def fits(self, body: bytes, at: int, count: int) -> bool:
        """Whether so many elements from there on have its bytes."""
        found = np.frombuffer(body, np.uint8, count * self.size, at).reshape(count, self.size)
        return bool((found.take(self._places, axis=1) == self._bytes).all())

    def fill(self, arrays: Mapping[str, np.ndarray[Any, Any]], body: bytes, at: int) -> None:
        """Puts the numbers of elements from there on in `arrays`."""
        for name, column in self.columns.items():
            out = arrays[name]
            for one in column.numbers:
                shape, steps = (len(out), one.length), (self.size, one.distance)
                found = np.ndarray(shape, one.kind, body, at + one.at, steps)
                out[:, one.first : one.first + one.length] = found


class _Layout:
    """Of pickles whose first element is as `first`, and whose others are as `other`. `start`: what
    is before them."""

    def __init__(self, start: bytes, first: _Part, other: _Part):
        self._start, self._first, self._other = start, first, other

    def columns(self, body: bytes) -> Columns | None:
        """None for another pickle."""
        at = len(self._start) + self._first.size
        if not body.startswith(self._start) or not body.endswith(_TAIL) or len(body) <= at:
            return None
        groups: list[tuple[int, int]] = []  # where they begin, and their elements
        rows, room, end = 1, _GROUP - 1, len(body) - len(_TAIL)
        while at < end:
            if not room:
                if not body.startswith(_NEXT_GROUP, at):
                    return None
                at, room = at + len(_NEXT_GROUP), _GROUP
            count = min(room, (end - at) // self._other.size)
            if not count or not self._other.fits(body, at, count):
                return None
            groups.append((at, count))
            at, room, rows = at + count * self._other.size, room - count, rows + count
            if room and at < end:
                return None
        if not self._first.fits(body, len(self._start), 1):
            return None
        arrays = {
            name: np.empty((rows, int(np.prod(column.shape))), column.kind)
            for name, column in self._first.columns.items()
        }
        self._first.fill(_part(arrays, 0, 1), body, len(self._start))
        done = 1
        for at, count in groups:
            self._other.fill(_part(arrays, done, count), body, at)
            done += count
        shapes = {name: (rows, *column.shape) for name, column in self._first.columns.items()}
        return Columns(rows, {name: arrays[name].reshape(shapes[name]) for name in arrays})


def _part(
    arrays: Mapping[str, np.ndarray[Any, Any]], first: int, count: int
) -> dict[str, np.ndarray[Any, Any]]:
    return {name: array[first : first + count] for name, array in arrays.items()}


def _without_frames(data: bytes) -> bytes:
    """A pickle without the lengths that stand between its parts. b"" for those that have none, or
    parts outside."""
    if data[:1] != b"\x80" or data[2:3] != bytes([_FRAME]):
        return b""
    view, at = memoryview(data), 2
    parts = [view[:at]]
    while at + 9 <= len(data) and data[at] == _FRAME:
        (size,) = struct.unpack_from("<Q", data, at + 1)
        parts.append(view[at + 9 : at + 9 + size])
        at += 9 + size
    parts.append(view[at:])
    return b"".join(parts) if len(parts[-1]) < 4 else b""  # a few bytes have no frame


# ---- Learning --------------------------------------------------------------------------------
class _Argument(NamedTuple):
    """What an operation of a pickle is about: `size` bytes from `at` on."""

    at: int
    size: int
    value: Any


_ARGUMENTS = {  # bytes of an operation before those of its argument; of these, if it is known
    "BINFLOAT": (1, 8),
    "BININT1": (1, 1),
    "SHORT_BINBYTES": (2, 0),
    "BINBYTES": (5, 0),
    "BINBYTES8": (9, 0),
    "BYTEARRAY8": (9, 0),
}
_OTHERS = 256  # operations that are not about numbers


def _learn(
    body: bytes, elements: list[Any], loads: Callable[[bytes], Sequence[Any]]
) -> _Layout | None:
    """The layout of a pickle of `elements`, None where it has none."""
    if len(elements) < _LEARNED_FROM or not body.startswith(_HEAD, 2):
        return None
    first, other = _leaves(elements[0]), _leaves(elements[1])
    if first is None or other is None or _kinds(first) != _kinds(other):
        return None
    numbers = sum(len(column.leaves) for column in other.values())
    for starts, arguments in _starts(body, _LEARNED_FROM * numbers + _OTHERS):
        parts = []
        for number, leaves in enumerate((first, other)):
            begin, end = starts[number], starts[number + 1]
            columns = _columns(leaves, [one for one in arguments if begin <= one.at < end], begin)
            if columns is not None:
                parts.append(_Part(body[begin:end], columns))
        if len(parts) == 2:
            layout = _Layout(body[: starts[0]], *parts)
            return layout if _is_proven(layout, body[: starts[2]], starts, parts, loads) else None
    return None


def _starts(body: bytes, most: int) -> Iterator[tuple[list[int], list[_Argument]]]:
    """Where the first three elements of the list may begin, and the arguments in them: where the
    second has the size of the third, in the first `most` operations. An element can have parts for
    which this is so as well."""
    starts: dict[int, int] = {}
    arguments: list[_Argument] = []
    marks: list[int] = []  # how many objects were on the stack
    depth = 0
    for operation, value, at in itertools.islice(pickletools.genops(body), most):
        place = at or 0
        if len(marks) == 1:
            elements = depth - marks[0]  # with the parts of one that is not whole
            starts[elements] = place  # the last one said of this many is where the next begins
            if elements == 3 and place - starts[2] == starts[2] - starts[1]:
                yield [starts[0], starts[1], starts[2]], arguments
        if operation.name in _ARGUMENTS:
            before, size = _ARGUMENTS[operation.name]
            arguments.append(_Argument(place + before, size or len(value or b""), value))
        takes = operation.stack_before
        if pickletools.markobject in takes:
            depth = marks.pop() - takes.index(pickletools.markobject)
        else:
            depth -= len(takes)
        for each in operation.stack_after:
            if each is pickletools.markobject:
                marks.append(depth)
            else:
                depth += 1


class _Leaf(NamedTuple):
    """A number or an array in an element. `kind`: of its bytes in a pickle."""

    value: Any
    kind: np.dtype[Any]
    length: int


class _Leaves(NamedTuple):
    """Of one column."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    leaves: list[_Leaf]


_FLOAT, _BYTE = np.dtype(">f8"), np.dtype("u1")  # in a pickle, of a float and of a small int


def _kinds(columns: Mapping[str, _Leaves]) -> dict[str, Any]:
    return {name: (column.kind, column.shape) for name, column in columns.items()}


def _leaves(element: Any) -> dict[str, _Leaves] | None:
    """By column, in the order of the pickle. None for an element with anything but numbers."""
    names = names_of(element)
    if names is None:
        values = {VALUE: element}
    elif isinstance(element, Mapping):
        values = {name: element.get(name) for name in names}
    else:
        values = dict(zip(names, element))
    found: dict[str, _Leaves] = {}
    for name, value in values.items():
        leaves = _leaves_of(value)
        if leaves is None:
            return None
        found[name] = leaves
    return found or None


def _leaves_of(value: Any) -> _Leaves | None:
    if isinstance(value, (np.ndarray, np.generic)):
        kind = value.dtype
        if kind.kind not in "iuf" or not kind.isnative or not value.flags.c_contiguous:
            return None
        leaf = _Leaf(value.tobytes(), kind, value.size)
        if isinstance(value, np.ndarray):
            return _Leaves(kind, value.shape, [leaf]) if value.ndim and value.size else None
        wide = np.dtype("f8" if kind.kind == "f" else "i8")  # those of Python
        return _Leaves(wide, (), [leaf]) if np.can_cast(kind, wide, "safe") else None
    items = value if type(value) in (list, tuple) else [value]
    kinds = set(map(type, items))
    if kinds == {float}:
        kind, leaves = np.dtype("f8"), [_Leaf(each, _FLOAT, 1) for each in items]
    elif kinds == {int} and all(0 <= each < 256 for each in items):
        kind, leaves = np.dtype("i8"), [_Leaf(each, _BYTE, 1) for each in items]
    else:
        return None
    return _Leaves(kind, () if items is not value else (len(items),), leaves)


def _columns(
    columns: Mapping[str, _Leaves], arguments: list[_Argument], begin: int
) -> dict[str, _Column] | None:
    """Which arguments are the leaves. From the last one backwards: the shape of an array comes
    after its bytes. None where one is not found."""
    found: dict[str, _Column] = {}
    rest = list(arguments)
    for name, column in reversed(list(columns.items())):
        numbers: list[_Numbers] = []
        place = sum(leaf.length for leaf in column.leaves)
        for leaf in reversed(column.leaves):
            while rest and not _is(leaf, rest[-1]):
                rest.pop()
            if not rest:
                return None
            place -= leaf.length
            size = leaf.kind.itemsize
            numbers.append(_Numbers(rest.pop().at - begin, leaf.length, size, leaf.kind, place))
        found[name] = _Column(column.kind, column.shape, tuple(_joined(numbers[::-1])))
    return dict(reversed(list(found.items())))


def _is(leaf: _Leaf, argument: _Argument) -> bool:
    """Whether the argument can be this leaf. A float that is no number is equal to none."""
    same = argument.value == leaf.value or argument.value != argument.value
    return same and argument.size == leaf.kind.itemsize * leaf.length


def _joined(numbers: list[_Numbers]) -> Iterator[_Numbers]:
    """Single numbers that follow one another at equal distances as one."""
    at = 0
    while at < len(numbers):
        first, end = numbers[at], at + 1
        if first.length == 1 and end < len(numbers):
            distance = numbers[end].at - first.at
            while end < len(numbers) and numbers[end].at - numbers[end - 1].at == distance:
                end += 1
            first = first._replace(length=end - at, distance=distance)
        yield first
        at = end


def _is_proven(
    layout: _Layout,
    data: bytes,
    starts: list[int],
    parts: list[_Part],
    loads: Callable[[bytes], Sequence[Any]],
) -> bool:
    """Whether, with other numbers in the same bytes, it finds what the pickle has."""
    drawn = bytearray(data)
    for start, part in zip(starts, parts):
        for column in part.columns.values():
            for one in column.numbers:
                for number in range(one.length):
                    at = start + one.at + number * one.distance
                    drawn[at : at + one.kind.itemsize] = _draw(one.kind)
    pickle = bytes(drawn) + _TAIL
    found = layout.columns(pickle)
    try:
        wanted = columns_of(list(loads(pickle)), 0, 0, {})
    except Exception:  # what was drawn was no number of an element
        return False
    return found is not None and bool(columns_of(found, 0, 0, {}).equals(wanted))


def _draw(kind: np.dtype[Any]) -> bytes:
    if kind.kind == "f":
        return np.array(_chance.uniform(-1e3, 1e3)).astype(kind).tobytes()
    return _chance.randbytes(kind.itemsize)


_chance = random.Random()  # programs may count on the state of the one that all share
