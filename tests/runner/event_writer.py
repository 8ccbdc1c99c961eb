"""TensorBoard's event files, byte by byte."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | float | bytes | str) -> bytes:
    """A varint, a double or a message, by the value's type."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def float_field(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def simple(tag: str, value: float) -> bytes:
    """A Summary.Value as TensorFlow 1 and PyTorch write it."""
    return field(1, tag) + float_field(2, value)


def tensor(tag: str, message: bytes, plugin: str = "scalars") -> bytes:
    """A Summary.Value as TensorFlow 2 writes it; `message` is a TensorProto."""
    return field(1, tag) + field(8, message) + field(9, field(1, field(1, plugin)))


def event(step: int, time: float, *values: bytes) -> bytes:
    """An Event with a Summary."""
    summary = b"".join(field(1, value) for value in values)
    return field(1, time) + field(2, step) + (field(5, summary) if values else b"")


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial is defined: not as the code that is tested does it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes, checked: bool = True) -> bytes:
    """A TFRecord; the checksum of large data, which nobody looks at, may be left out."""
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + (masked(data) if checked else bytes(4))
