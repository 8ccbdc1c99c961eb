"""The connection of a session (tfapp.contract.sessions), by mutual TLS. Both sides send frames: a
letter for what it is, the length, the bytes."""

from __future__ import annotations

import select
import ssl
import struct
from collections.abc import Iterator, Mapping

READY = b"r"  # to the client, the first frame: it is the owner
START = b"s"  # to the container, the first frame: class Command, as JSON
INPUT = b"i"  # to the container; an empty one is the end of standard input
OUTPUT, ERRORS = b"o", b"e"  # to the client: standard output and standard error
RESIZE = b"w"  # to the container: rows and columns of the terminal, see `size`
SIGNAL = b"k"  # to the container: the number of a signal for the command, one byte
EXIT = b"x"  # to the client, the last frame: the exit code, one byte

CHUNK = 1 << 16  # bytes of input or output in one frame
AHEAD = 1 << 20  # bytes that wait in one direction until no more is read
MAX_FRAME = 1 << 20  # bytes

_HEAD = struct.Struct("!cI")
_WANT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


def size(rows: int, columns: int) -> bytes:
    """The content of RESIZE, which is also what the kernel takes (struct winsize)."""
    return struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)


class GoneError(Exception):
    """The other side of the session has gone, or says what nobody can understand."""


class Channel:
    """The connection of a session, which never blocks. `waiting`: bytes that are not sent yet."""

    def __init__(self, connection: ssl.SSLSocket):
        connection.setblocking(False)
        self._connection = connection
        self._received = bytearray()
        self.waiting = bytearray()

    def put(self, kind: bytes, data: bytes = b"") -> None:
        self.waiting += _HEAD.pack(kind, len(data)) + data

    @property
    def full(self) -> bool:
        return len(self.waiting) >= AHEAD

    def wait(
        self, files: Mapping[int, int], timeout: float | None = None, reads: bool = True
    ) -> dict[int, int]:
        """Waits until there is something to do, and sends what waits. Returns the events of those
        `files` (number -> events of poll) that have some. `reads`: frames are taken next.
        GoneError."""
        poll, own = select.poll(), self._connection.fileno()
        for number, events in files.items():
            poll.register(number, events)
        wanted = (select.POLLIN if reads else 0) | (select.POLLOUT if self.waiting else 0)
        poll.register(own, wanted | select.POLLRDHUP)
        pending = reads and self._connection.pending()
        found = dict(poll.poll(0 if pending else None if timeout is None else timeout * 1000))
        mine = found.pop(own, 0)
        if not reads and mine & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
            raise GoneError
        self._send()
        return found

    def _send(self) -> None:
        try:
            while self.waiting:
                del self.waiting[: self._connection.send(self.waiting[:CHUNK])]
        except _WANT:
            pass
        except OSError as error:
            raise GoneError from error

    def take(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames that have arrived by now. GoneError."""
        try:
            data = self._connection.recv(CHUNK)
        except _WANT:
            return
        except OSError as error:
            raise GoneError(str(error)) from error
        if not data:
            raise GoneError
        self._received += data
        while len(self._received) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._received)
            if length > MAX_FRAME:
                raise GoneError
            end = _HEAD.size + length
            if len(self._received) < end:
                return
            frame = bytes(self._received[_HEAD.size : end])
            del self._received[:end]
            yield kind, frame
