"""Reads numbers directly from the pickles in which Spark stores the elements of an RDD, without a
Python object for each number. This module is shipped to executors.

The pickles of elements of the same types and sizes differ only in the bytes of their numbers. A
layout describes such pickles: where the numbers are, and the constant bytes between them. It is
learned from the first elements of a pickle, and verified: with random numbers in place of the real
ones, it must give the same result as unpickling. Every pickle is compared with the constant bytes
of the layout, and is unpickled if it differs. A form is a layout for pickles of one size.
"""

from __future__ import annotations

import functools
import itertools
import pickletools
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfapp.errors import FeedError
from tfapp.feed.columns import record_batch
from tfapp.feed.task.rows import FEW, Packed, Run, alike, arrays_of, batch_of, names_of, values_of

_HEAD = b"]\x94("  # after the protocol: EMPTY_LIST, MEMOIZE, MARK
_TAIL = b"e."
_NEXT_GROUP = b"e("
_GROUP = 1000  # elements between MARK and APPENDS
_FRAME = 0x95
_LEARNED_FROM = 3  # elements. The first one names its classes, and the others refer to these
_KEPT = 4  # most layouts that a Python worker keeps
_FORMS = 16  # most forms that it keeps of each
_TRIES = 4  # most pickles of a partition from which it tries to learn a layout

_kept: list[_Layout] = []  # the layouts of this Python worker, the last used first


def runs(pickles: Iterable[bytes], loads: Callable[[bytes], Sequence[Any]]) -> Iterator[Run]:
    """Yields the elements of each pickle. `loads` unpickles one. The first FEW elements decide the
    types of the columns, so they are unpickled unless all are alike."""
    tries, seen, is_alike = _TRIES, 0, True
    first: list[tuple[bytes, Run]] = []  # the first elements, with their pickles

    def read(data: bytes) -> Run:
        nonlocal tries
        body = _without_frames(data)
        found = _read(body) if body else None
        if found is not None:
            return found
        elements = list(loads(data))
        if body and tries:
            tries -= 1
            _keep(_learn(body, elements, loads))
        return elements

    rest = iter(pickles)
    while seen < FEW and (data := next(rest, None)) is not None:
        first.append((data, read(data)))
        run = first[-1][1]
        seen += len(run)
        is_alike = is_alike and isinstance(run, Packed) and alike(run, first[0][1])
        if not is_alike:
            yield from (list(loads(one)) if isinstance(run, Packed) else run for one, run in first)
            first.clear()
    yield from (run for _, run in first)
    yield from map(read, rest)


def _read(body: bytes) -> Packed | None:
    """The elements of a pickle without frames; None if no layout fits."""
    for place, layout in enumerate(_kept):
        if (found := layout.read(body)) is not None:
            if place:
                _kept.insert(0, _kept.pop(place))
            return found
    return None


def _keep(layout: _Layout | None) -> None:
    if layout is not None:
        _kept.insert(0, layout)
        del _kept[_KEPT:]


class _Numbers(NamedTuple):
    """`length` numbers of the type `kind` in the bytes of an element: the first at `at`, the others
    at equal distances. `first`: the index of the first one in the flattened row of the column."""

    at: int
    length: int
    distance: int
    kind: np.dtype[Any]
    first: int


class _Column(NamedTuple):
    """A column: the type of its numbers, the shape of a row, and where the numbers are."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    numbers: tuple[_Numbers, ...]


class _Part:
    """The layout of one element: its constant bytes, and where its numbers are."""

    def __init__(self, data: bytes, columns: Mapping[str, _Column]):
        self.size = len(data)
        self.columns = columns
        self.bytes = np.frombuffer(data, np.uint8)
        self.constant = np.ones(len(data), bool)  # whether it is, for each byte
        for column in columns.values():
            for one in column.numbers:
                places = one.at + one.distance * np.arange(one.length)
                for byte in range(one.kind.itemsize):
                    self.constant[places + byte] = False


class _Elements(NamedTuple):
    """`number` elements of the same layout in a pickle, the first of them at `at`."""

    part: _Part
    at: int
    number: int


class _Form:
    """The layout of pickles of one size. `elements`: all of them, in order. Between them are the
    bytes `others`: (position, bytes)."""

    def __init__(self, size: int, elements: Sequence[_Elements], others: Mapping[int, bytes]):
        self.rows = sum(each.number for each in elements)
        self._elements = elements
        template, constant = np.zeros(size, np.uint8), np.zeros(size, bool)
        for at, data in others.items():
            template[at : at + len(data)] = np.frombuffer(data, np.uint8)
            constant[at : at + len(data)] = True
        for part, at, number in elements:
            shape, end = (number, part.size), at + number * part.size
            template[at:end].reshape(shape)[:] = part.bytes
            constant[at:end].reshape(shape)[:] = part.constant
        self._places = np.flatnonzero(constant)
        self._bytes = template[self._places].tobytes()

    def fits(self, body: bytes) -> bool:
        """Whether a pickle of this size has the constant bytes."""
        return np.frombuffer(body, np.uint8).take(self._places).tobytes() == self._bytes

    def fill(self, body: bytes, arrays: Mapping[str, np.ndarray[Any, Any]], first: int) -> None:
        for part, at, number in self._elements:
            for name, column in part.columns.items():
                out = arrays[name]
                for one in column.numbers:
                    shape, steps = (number, one.length), (part.size, one.distance)
                    found = np.ndarray(shape, one.kind, body, at + one.at, steps)
                    out[first : first + number, one.first : one.first + one.length] = found
            first += number


class _Layout:
    """The layout of a pickled list. `start`: the bytes before the first element. `first`: the
    layout of the first element; `other`: that of all others."""

    def __init__(self, start: bytes, first: _Part, other: _Part):
        self._start, self._first, self._other = start, first, other
        self._kinds = {name: (column.kind, column.shape) for name, column in first.columns.items()}
        self._forms: dict[int, _Form | None] = {}  # by the size of the pickle

    def read(self, body: bytes) -> Packed | None:
        """The elements of a pickle without frames; None if the layout does not fit."""
        size = len(body)
        if size not in self._forms:
            if len(self._forms) == _FORMS:
                del self._forms[next(iter(self._forms))]
            self._forms[size] = self._form(size)
        form = self._forms[size]
        if form is None or not form.fits(body):
            return None
        return Packed(form.rows, self._kinds, functools.partial(form.fill, body), body)

    def _form(self, size: int) -> _Form | None:
        """The form of pickles of `size` bytes; None if there are none."""
        others = {0: self._start}
        elements = [_Elements(self._first, len(self._start), 1)]
        at, room, end = len(self._start) + self._first.size, _GROUP - 1, size - len(_TAIL)
        while at < end:
            if not room:
                others[at] = _NEXT_GROUP
                at, room = at + len(_NEXT_GROUP), _GROUP
            count = min(room, (end - at) // self._other.size)
            if count <= 0:
                return None
            elements.append(_Elements(self._other, at, count))
            at, room = at + count * self._other.size, room - count
            if room and at < end:
                return None
        others[end] = _TAIL
        return _Form(size, elements, others) if at == end else None


def _without_frames(data: bytes) -> bytes:
    """A pickle without the opcodes that divide it into frames. b"" if it has no frames, or large
    objects outside of frames."""
    if data[:1] != b"\x80" or data[2:3] != bytes([_FRAME]):
        return b""
    view, at = memoryview(data), 2
    parts = [view[:at]]
    while at + 9 <= len(data) and data[at] == _FRAME:
        (size,) = struct.unpack_from("<Q", data, at + 1)
        parts.append(view[at + 9 : at + 9 + size])
        at += 9 + size
    parts.append(view[at:])
    return b"".join(parts) if len(parts[-1]) < 4 else b""  # fewer bytes than 4 get no frame


# ---- Learning --------------------------------------------------------------------------------
class _Argument(NamedTuple):
    """The argument of a pickle opcode: `size` bytes from `at` on, which mean `value`."""

    at: int
    size: int
    value: Any


_ARGUMENTS = {  # opcode -> (offset of its argument, size of the argument or 0 if it varies)
    "BINFLOAT": (1, 8),
    "BININT1": (1, 1),
    "SHORT_BINBYTES": (2, 0),
    "BINBYTES": (5, 0),
    "BINBYTES8": (9, 0),
    "BYTEARRAY8": (9, 0),
}
_OTHERS = 256  # most opcodes of the first elements that are not for numbers


def _learn(
    body: bytes, elements: list[Any], loads: Callable[[bytes], Sequence[Any]]
) -> _Layout | None:
    """The layout of the pickle `body` of `elements`; None if it has none."""
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
            return layout if _is_verified(layout, body[: starts[2]], starts, parts, loads) else None
    return None


def _starts(body: bytes, most: int) -> Iterator[tuple[list[int], list[_Argument]]]:
    """Yields candidates for the positions of the first three elements, with the arguments up to
    there: the second and the third element must have the same size. Parts of one element can look
    like elements, so there can be several candidates. Reads the first `most` opcodes."""
    starts: dict[int, int] = {}
    arguments: list[_Argument] = []
    marks: list[int] = []  # depth of the stack at each open MARK
    depth = 0
    for operation, value, at in itertools.islice(pickletools.genops(body), most):
        place = at or 0
        if len(marks) == 1:
            elements = depth - marks[0]  # including the parts of an incomplete one
            starts[elements] = place  # the last opcode at this depth begins the next element
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
    """A number or an array in an element, with `length` numbers. `kind`: their type in a pickle."""

    value: Any
    kind: np.dtype[Any]
    length: int


class _Leaves(NamedTuple):
    """The leaves of one column of an element. `kind` and `shape`: those of a row of the column."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    leaves: list[_Leaf]


_FLOAT, _BYTE = np.dtype(">f8"), np.dtype("u1")  # types of a float and a small int in a pickle


def _kinds(columns: Mapping[str, _Leaves]) -> dict[str, Any]:
    return {name: (column.kind, column.shape) for name, column in columns.items()}


def _leaves(element: Any) -> dict[str, _Leaves] | None:
    """The leaves of an element, by column, in the order of the pickle. None if it has anything but
    numbers."""
    try:
        values = values_of(element, names_of(element))
    except FeedError:  # told with its place when it is converted
        return None
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
        wide = np.dtype("f8" if kind.kind == "f" else "i8")  # as for numbers of Python
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
    """Finds the arguments that are the leaves. It searches backwards, because the shape of an array
    follows its bytes. None if a leaf is not found. `begin`: the position of the element."""
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
        found[name] = _Column(column.kind, column.shape, tuple(_merged(numbers[::-1])))
    return dict(reversed(list(found.items())))


def _is(leaf: _Leaf, argument: _Argument) -> bool:
    """Whether the argument can be this leaf. NaN is not equal to itself, so it matches every
    float."""
    same = argument.value == leaf.value or argument.value != argument.value
    return same and argument.size == leaf.kind.itemsize * leaf.length


def _merged(numbers: list[_Numbers]) -> Iterator[_Numbers]:
    """Merges consecutive single numbers at equal distances."""
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


def _is_verified(
    layout: _Layout,
    data: bytes,
    starts: list[int],
    parts: list[_Part],
    loads: Callable[[bytes], Sequence[Any]],
) -> bool:
    """Whether the layout gives the same result as unpickling, with random numbers in place of those
    of the first two elements."""
    drawn = bytearray(data)
    for start, part in zip(starts, parts):
        for column in part.columns.values():
            for one in column.numbers:
                for number in range(one.length):
                    at = start + one.at + number * one.distance
                    drawn[at : at + one.kind.itemsize] = _draw(one.kind)
    pickle = bytes(drawn) + _TAIL
    found = layout.read(pickle)
    try:
        wanted = batch_of(loads(pickle))
    except Exception:  # a byte that was replaced was not a number of an element
        return False
    return found is not None and bool(record_batch(arrays_of([found])).equals(wanted))


def _draw(kind: np.dtype[Any]) -> bytes:
    if kind.kind == "f":
        return np.array(_chance.uniform(-1e3, 1e3)).astype(kind).tobytes()
    return _chance.randbytes(kind.itemsize)


_chance = random.Random()  # of its own: the job may depend on the state of the shared one
