"""The scalars in TensorBoard's event files, read as they grow. By protobuf alone: TensorFlow would
take a runner seconds and hundreds of megabytes.

A file is TFRecords, https://www.tensorflow.org/tutorials/load_data/tfrecord, each an `Event`
message, https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import collections
import functools
import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST_READ = 4 << 20  # bytes of records, without the large ones, that a look reads
MOST_PARSED = 1000  # records that a look parses: the newest
MOST_PARSED_BYTES = 256 << 10  # and how long they are together
LARGEST = 64 << 10  # bytes of a record that is parsed: a larger one is no scalar

_BLOCK = 64 << 10  # bytes of one read
_HEADER = 12  # bytes: length, checksum of the length
_FOOTER = 4  # bytes: checksum of the data


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
        except (ValueError, struct.error):
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


# ---- Messages: those of event.proto, summary.proto and tensor.proto, without what is not read ---
_MESSAGES = """
Event: wall_time double, step int64, -, -, summary Summary
Summary: value Value*
Value: tag bytes, value/number float, -, -, value/histogram bytes, -, -, value/tensor Tensor, metadata Metadata
Metadata: plugin Plugin
Plugin: name bytes
Tensor: type int32, shape bytes, -, content bytes, floats float*, doubles double*, ints int32*, -, -, longs int64*
"""  # noqa: E501
# DataType -> (the tensor's field of repeated values, the layout of its content).
_TYPES = {
    1: ("floats", "<f"),  # DT_FLOAT
    2: ("doubles", "<d"),  # DT_DOUBLE
    3: ("ints", "<i"),  # DT_INT32
    9: ("longs", "<q"),  # DT_INT64
}


@functools.cache
def _event_class() -> Any:
    # It brings gRPC: see tfapp.protocol.connection.load.
    from tfapp.protocol.definition import message_classes

    return message_classes("tensorboard", _MESSAGES).Event


def _scalars(data: bytes) -> Iterator[Scalar]:
    from tfapp.protocol.definition import parsed

    event = parsed(_event_class(), data)
    for value in event.summary.value:
        number = _number(value)
        if value.tag and number is not None and value.metadata.plugin.name in (b"", b"scalars"):
            tag = value.tag.decode(errors="replace")
            yield Scalar(tag, number, event.step, event.wall_time)


def _number(value: Any) -> float | None:
    """The number in a value; None for a tensor of another shape or type, a histogram and others."""
    kind, tensor = value.WhichOneof("value"), value.tensor
    if kind == "number":
        return _short(value.number)
    if kind != "tensor" or tensor.shape or tensor.type not in _TYPES:
        return None
    field, layout = _TYPES[tensor.type]
    # Protobuf leaves out a tensor's zeros.
    values = struct.unpack(layout, tensor.content) if tensor.content else getattr(tensor, field)
    number = float(values[0] if values else 0)
    return _short(number) if field == "floats" else number


def _short(number: float) -> float:
    """A 32-bit float without the digits that it does not have: 0.1 for 0.10000000149."""
    return float(f"{number:.7g}")
