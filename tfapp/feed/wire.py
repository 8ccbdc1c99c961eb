"""The transport of the feed: mutual TLS with the feed's own credentials, and lines of JSON, some
followed by bytes. tfapp.feed.lines has the lines. This module is shipped to executors and to
programs, so it uses the standard library only. A line of more than MAX_LINE bytes travels in
pieces: all but the last begin with "+".
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfapp.errors import FeedError

CONNECT_LIMIT = 20.0  # seconds
SILENCE = 20  # seconds after which a machine that does not answer counts as gone
MAX_LINE = 1 << 20  # bytes of one line
SMALL = 1 << 14  # most bytes of a line and its body that are sent in one call
MAX_BODY = 1 << 28  # bytes of one message


class ImpossibleError(ValueError):
    """A line that the other side cannot send, or not now."""


class Credentials(NamedTuple):
    """The TLS credentials of one feed, in PEM. Everybody who has them can take part in the feed."""

    certificate: bytes
    key: bytes

    def packed(self) -> str:
        """The credentials as one word of text."""
        return base64.b64encode(json.dumps([each.decode() for each in self]).encode()).decode()

    @classmethod
    def unpacked(cls, word: str) -> Credentials:
        certificate, key = json.loads(base64.b64decode(word))
        return cls(certificate.encode(), key.encode())

    def tls(self, server: bool) -> ssl.SSLContext:
        """A TLS context that requires these credentials of both sides."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # all sides have the same certificate
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            # A client would process session tickets while it reads, and another thread may be
            # writing then: OpenSSL forbids that.
            context.num_tickets = 0
        context.load_verify_locations(cadata=self.certificate.decode())
        # Python's ssl module loads key pairs from files only.
        handle, path = tempfile.mkstemp(prefix="tfapp-feed-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.certificate + self.key)
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
        return context


class Line:
    """A connection on which both sides send lines. Several threads may write to it, and one may
    read. Its methods raise OSError if it has ended. `memory`: the memory that this side shares with
    the other, see tfapp.feed.memory."""

    def __init__(self, connection: ssl.SSLSocket):
        self.memory: Any = None
        notice_silence(connection)
        self._socket = connection
        self._reader = connection.makefile("rb", buffering=1 << 18)
        self._lock = threading.Lock()

    def say(self, what: dict[str, Any], *bodies: Any) -> None:
        """Sends a line, followed by `bodies`."""
        head = _in_pieces(json.dumps(what).encode())
        with self._lock:
            for body in bodies:
                if len(head) + memoryview(body).nbytes <= SMALL:
                    head += bytes(body)
                    continue
                if head:
                    self._socket.sendall(head)
                self._socket.sendall(body)
                head = b""
            if head:
                self._socket.sendall(head)

    def send(self, what: dict[str, Any], stream: Sequence[Any]) -> None:
        """Sends a line and the parts of `stream`, with their length in bytes as the line's
        `size`. FeedError if they are too many for a message."""
        size = sum(memoryview(part).nbytes for part in stream)
        if size > MAX_BODY:
            raise FeedError(f"rows of {size} bytes in one message; {MAX_BODY} bytes are the most")
        self.say({**what, "size": size}, *stream)

    def hear(self) -> dict[str, Any]:
        """Waits for and returns the next line. ImpossibleError if it is too long, or no JSON
        object."""
        line, begun = self._piece(), b""
        while line.startswith(b"+"):
            begun += line[1:-1]
            if len(begun) > MAX_BODY:
                raise ImpossibleError(f"a line of more than {MAX_BODY} bytes")
            line = self._piece()
        try:
            said = json.loads(begun + line)
        except (ValueError, RecursionError):
            raise ImpossibleError(f"{shown(begun + line)}, which is no JSON") from None
        if not isinstance(said, dict):
            raise ImpossibleError(f"{shown(begun + line)}, which is no JSON object")
        return said

    def _piece(self) -> bytes:
        line = self._reader.readline(MAX_LINE)
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            raise ImpossibleError(f"a line of more than {MAX_LINE} bytes")
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection has ended")
        return line

    def body(self, size: int) -> bytes:
        """Waits for and returns the `size` bytes after a line. ImpossibleError if they are too
        many."""
        if not 0 <= size <= MAX_BODY:
            raise ImpossibleError(f"a message of {size} bytes")
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionError("the connection has ended")
        return data

    def ask(self, what: dict[str, Any]) -> dict[str, Any]:
        """Sends a line and returns the next line from the other side."""
        self.say(what)
        return self.hear()

    def is_quiet(self, seconds: float = 0.0) -> bool:
        """Whether nothing has arrived since the last read, not even the end of the connection, and
        nothing arrives within `seconds`."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not self._socket.pending() and not poll.poll(seconds * 1000)

    def end(self) -> None:
        """Ends the connection. The thread that reads notices, and must close it."""
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown: after that, the thread that reads would get what has arrived
            # as it is, encrypted.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection. Only for the thread that reads."""
        self.end()
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        with contextlib.suppress(OSError):
            self._reader.close()
        with contextlib.suppress(OSError):
            self._socket.close()


def serve(
    plain: socket.socket,
    tls: ssl.SSLContext,
    begin: Callable[[Line, dict[str, Any]], object],
    got: Callable[[], str],
) -> None:
    """Serves a connection that was accepted: calls `begin` with its line and the first words on it.
    An ImpossibleError is told to the other side; `got`: the words for who has got it. Connections
    without the feed's credentials are closed silently."""
    with plain, contextlib.suppress(OSError):
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = Line(tls.wrap_socket(plain, server_side=True))
        try:
            begin(line, line.hear())
        except ImpossibleError as error:
            line.say({"error": f"{got()} {error}"})
        finally:
            line.close()


def connect(address: str, tls: ssl.SSLContext, hello: dict[str, Any]) -> Line:
    """Connects to `address` (host:port) and sends `hello` as the first line. Raises OSError."""
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = tls.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise
    line = Line(connection)
    try:
        connection.settimeout(None)
        line.say(hello)
    except BaseException:
        line.close()
        raise
    return line


def _in_pieces(line: bytes) -> bytes:
    """The line and its end, in pieces where it is long."""
    most = MAX_LINE - 2  # without "+" and the end
    cuts = range(0, len(line) - most, most)
    pieces = [b"+" + line[at : at + most] + b"\n" for at in cuts]
    return b"".join([*pieces, line[len(cuts) * most :], b"\n"])


def shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return ascii(line[:80].decode(errors="replace").strip())


def notice_silence(connection: socket.socket) -> None:
    """Makes the connection end if the other machine does not answer for SILENCE seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENCE // 2),
        ("TCP_KEEPINTVL", max(1, SILENCE // 8)),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", SILENCE * 1000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
