"""Ports that an instance exports before its program runs, and that nobody can take meanwhile.

A held port is bound *without* SO_REUSEPORT, which fails while anybody else has it, and only then
gets the option. From there on the kernel lets a process of the same user that sets the option
(TensorFlow with TF_GRPC_REUSE_PORT=true) bind and serve it, beside this socket that never
listens; a second holder, which binds without the option, is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

MAX_PORT = 65535


class NoPortError(Exception):
    """No port is available. The text is a sentence for the user."""


class HeldPort:
    """A TCP port on all addresses of this machine, ours until `close()`."""

    def __init__(self, held: socket.socket):
        self._socket = held
        self.number: int = held.getsockname()[1]

    @property
    def held(self) -> bool:
        return self._socket.fileno() >= 0

    def close(self) -> None:
        """Lets the port go. May be called twice."""
        self._socket.close()


def hold(allowed: str = "", preferred: int = 0) -> HeldPort:
    """Holds `preferred` if it is free and not 0, else any port of `allowed` ("48000,
    50000-50010"; "" is any port at all). NoPortError when none is free."""
    ranges = tuple(parse_ranges(allowed))
    if preferred:
        held = _try(preferred)
        if held is not None:
            return held
    if not ranges:
        held = _try(0)
        if held is None:
            raise NoPortError("this machine has no free TCP port left")
        return held
    for number in (port for ports in ranges for port in ports):
        held = _try(number)
        if held is not None:
            return held
    count = sum(len(ports) for ports in ranges)
    raise NoPortError(
        f"no port is free in site.global.slider.allowed.ports: {allowed} "
        f"({count} port{'s' if count != 1 else ''}, all in use on this machine); widen the range"
    )


def hold_again(port: HeldPort) -> HeldPort:
    """Holds the same port again. NoPortError when another process has it now."""
    held = port if port.held else _try(port.number)
    if held is None:
        raise NoPortError(f"port {port.number}, which the program had, is in use by another one")
    return held


def parse_ranges(text: str) -> Iterator[range]:
    """ "48000, 50000-50010" -> its ranges. NoPortError for other text."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = (word.strip() for word in part.partition("-"))
        numbers = (first, last) if dash else (first, first)
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise NoPortError(f"site.global.slider.allowed.ports: {part!r} is no port or range")
        start, end = map(int, numbers)
        if not 1 <= start <= end <= MAX_PORT:
            raise NoPortError(
                f"site.global.slider.allowed.ports: {part!r} is not within 1-{MAX_PORT}, "
                "smaller number first"
            )
        yield range(start, end + 1)


def release(ports: Iterable[HeldPort]) -> None:
    for port in ports:
        port.close()


def _try(number: int) -> HeldPort | None:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind(("", number))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        held.close()
        return None
    return HeldPort(held)
