"""The scalars in TensorBoard's event files, read as they grow. Standard library alone: TensorFlow
would take a runner seconds and hundreds of megabytes.

A file is TFRecords, https://www.tensorflow.org/tutorials/load_data/tfrecord, each an `Event`
message, https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import collections
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple, Union

MOST_READ = 4 << 20  # bytes of records, without the large ones, that a look reads
MOST_PARSED = 1000  # records that a look parses: the newest
MOST_PARSED_BYTES = 256 << 10  # and how long they are together
LARGEST = 64 << 10  # bytes of a record that is parsed: a larger one is no scalar

_BLOCK = 64 << 10  # bytes of one read
_HEADER = 12  # bytes: length, checksum of the length
_FOOTER = 4  # bytes: checksum of the data

_Value = Union[int, bytes]


class Scalar(NamedTuple):
    """One value of a tag. `time`: seconds since 1970."""

    tag: str
    value: float
    step: int
    time: float


class NoEventFileError(Exception):
    """The file does not consist of records."""


def read_new(descriptor: int, offset: int) -> tuple[int, list[Scalar]]:
    """Reads the records from byte `offset` on, where a record begins. Returns the offset for the
    next call, and the scalars. A call takes a bounded time: old records may be skipped in favour of
    the newest ones, and others are left for the next call, such as one that is being written.
    NoEventFileError; OSError."""
    size = os.fstat(descriptor).st_size
    if size < offset:  # it was written anew
        offset = 0
    places: collections.deque[tuple[int, int]] = collections.deque(maxlen=MOST_PARSED)
    for begin, length in _records(descriptor, offset, size):
        offset = begin + length + _FOOTER
        if 0 < length <= LARGEST:
            places.append((begin, length))
    scalars: list[Scalar] = []
    left = MOST_PARSED_BYTES
    kept = []
    while places and left >= places[-1][1]:
        kept.append(places.pop())
        left -= kept[-1][1]
    for begin, length in reversed(kept):
        try:
            scalars += _scalars(os.pread(descriptor, length, begin))
        except (ValueError, IndexError, struct.error, OverflowError):
            continue  # no such message: another one may be
    return offset, scalars


def _records(descriptor: int, offset: int, size: int) -> Iterator[tuple[int, int]]:
    """(where its data begins, their length) of each whole record."""
    block, start, left = b"", offset, MOST_READ
    while offset + _HEADER <= size:
        within = offset - start
        if not 0 <= within <= len(block) - _HEADER:
            if left <= 0:
                return
            block, start, within = os.pread(descriptor, _BLOCK, offset), offset, 0
            left -= len(block)
            if len(block) < _HEADER:
                return
        length, checksum = struct.unpack_from("<QI", block, within)
        if _masked_crc(block[within : within + 8]) != checksum:
            raise NoEventFileError
        if offset + _HEADER + length + _FOOTER > size:
            return
        yield offset + _HEADER, length
        offset += _HEADER + length + _FOOTER


# ---- Checksums --------------------------------------------------------------------------------


def _crc_table() -> tuple[int, ...]:
    """The table of CRC-32C (Castagnoli's polynomial, bits reversed)."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def _masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


# ---- Messages. Numbers of fields are those of event.proto, summary.proto and tensor.proto ------


def _scalars(event: bytes) -> Iterator[Scalar]:
    time, step, summary = 0.0, 0, b""
    for field, value in _fields(event):
        if field == 1 and isinstance(value, bytes):
            (time,) = struct.unpack("<d", value)
        elif field == 2 and isinstance(value, int):
            step = _signed(value)
        elif field == 5 and isinstance(value, bytes):
            summary = value
    for field, value in _fields(summary):
        if field == 1 and isinstance(value, bytes):
            tag, number = _summary_value(value)
            if tag and number is not None:
                yield Scalar(tag, number, step, time)


def _summary_value(message: bytes) -> tuple[str, float | None]:
    tag, number, kind = "", None, ""
    for field, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            tag = value.decode(errors="replace")
        elif field == 2:
            number = _short(struct.unpack("<f", value)[0])
        elif field == 8:
            number = _scalar_tensor(value)
        elif field == 9:
            kind = _plugin(value)
    return tag, number if kind in ("", "scalars") else None


def _plugin(metadata: bytes) -> str:
    for field, value in _fields(metadata):
        if field == 1 and isinstance(value, bytes):
            for inner, name in _fields(value):
                if inner == 1 and isinstance(name, bytes):
                    return name.decode(errors="replace")
    return ""


# DataType -> (the tensor's field of repeated values, how they are packed). "": as varints.
_TYPES = {
    1: (5, "<f"),  # DT_FLOAT
    2: (6, "<d"),  # DT_DOUBLE
    3: (7, ""),  # DT_INT32
    9: (10, ""),  # DT_INT64
}
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}


def _scalar_tensor(tensor: bytes) -> float | None:
    """The number in it; None for another shape or type."""
    kind, content, repeated = 0, b"", {}
    for field, value in _fields(tensor):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2 and isinstance(value, bytes):
            if any(True for _ in _fields(value)):  # it has dimensions
                return None
        elif field == 4 and isinstance(value, bytes):
            content = value
        else:
            repeated[field] = value
    if kind not in _TYPES:
        return None
    field, layout = _TYPES[kind]
    if content:
        number = struct.unpack(_CONTENT[kind], content)[0]
    else:
        number = _only(repeated.get(field, b""), layout)
    return _short(number) if kind == 1 else float(number)


def _only(value: _Value, layout: str) -> float:
    """The one value of a repeated field, packed or not. Protobuf leaves out a tensor's zeros."""
    if isinstance(value, int):
        return _signed(value)
    if not value:
        return 0.0
    return struct.unpack(layout, value)[0] if layout else _signed(_varint(value, 0)[0])


def _short(number: float) -> float:
    """A 32-bit float without the digits that it does not have: 0.1 for 0.10000000149."""
    return float(f"{number:.7g}")


def _fields(message: bytes) -> Iterator[tuple[int, _Value]]:
    """(number, value) of each field: an integer of a varint, else bytes. ValueError or IndexError
    for what is no message."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > end:
            raise ValueError("it ends too early")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
