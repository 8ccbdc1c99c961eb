"""A port of 127.0.0.1 that is forwarded to a port of a pod, each connection over its own websocket.

The protocol has no half-closed connections: when one side ends, the other is closed once it has
received all data.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

from tfapp import threads
from tfapp.engines.kubernetes.websockets import Socket, encode
from tfapp.errors import TfappError
from tfapp.ready import ready

AHEAD = 1 << 20  # bytes that wait in one direction until no more is read
CHUNK = 1 << 17  # bytes read at once
DATA, ERROR = 0, 1  # channels of the first port

_WANT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class Forward:
    """The listener and its connections. `open_socket` opens the websocket of a connection; one that
    fails is closed."""

    def __init__(self, open_socket: Callable[[], Socket]):
        self._open_socket = open_socket
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._acceptor: threading.Thread
        self._ends, self._end = socket.socketpair()  # readable from the end on, for each `select`

    def __enter__(self) -> tuple[str, int]:
        self._acceptor = threads.keep("port-forward", self._accept)
        return self._listener.getsockname()[:2]

    def __exit__(self, *_: object) -> None:
        self._end.close()
        self._acceptor.join()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._ends.close()

    def _accept(self) -> None:
        while True:
            if self._ends in ready([self._listener, self._ends])[0]:
                return
            local, _ = self._listener.accept()
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threads.start_surely("port-forward", self._relay, local))

    def _relay(self, local: socket.socket) -> None:
        with local, contextlib.suppress(TfappError):
            remote = self._open_socket()
            with contextlib.closing(remote):
                Relay(local, remote, self._ends).run()


class Relay:
    """A connection. It also ends when `ends` is readable."""

    def __init__(self, local: socket.socket, remote: Socket, ends: socket.socket):
        self._local, self._remote, self._ends = local, remote, ends
        self._to_pod, self._to_local = bytearray(), bytearray()
        self._begun: set[int] = set()  # channels whose first message, the port, was read
        self._local_open = self._remote_open = True

    def run(self) -> None:
        self._local.setblocking(False)
        while self._local_open or self._remote_open:
            try:
                if not self._step():
                    break
            except OSError:  # one side is gone without a word
                break

    def _step(self) -> bool:
        """Waits for the next event and handles it. False when the connection has ended."""
        if not self._remote_open and not self._to_local:
            return False
        if not self._local_open and not self._to_pod:
            return False
        reads, writes = [self._ends], []
        if self._local_open and self._remote_open and len(self._to_pod) < AHEAD:
            reads.append(self._local)
        hears = self._remote_open and len(self._to_local) < AHEAD
        if hears:
            reads.append(self._remote.socket)
        if self._to_pod and self._remote_open:
            writes.append(self._remote.socket)
        if self._to_local:
            writes.append(self._local)
        waits = None if not (hears and self._pending()) else 0
        readable, writable = ready(reads, writes, waits)
        if self._ends in readable:
            return False
        if hears and (waits == 0 or self._remote.socket in readable):
            self._hear()
        if self._local in readable:
            self._read_local()
        if self._remote.socket in writable:
            self._send()
        if self._local in writable:
            with contextlib.suppress(BlockingIOError):
                del self._to_local[: self._local.send(self._to_local)]
        return True

    def _pending(self) -> bool:
        """Whether TLS has buffered data that `select` does not see."""
        below = self._remote.socket
        return isinstance(below, ssl.SSLSocket) and below.pending() > 0

    def _hear(self) -> None:
        try:
            message, answer = self._remote.read()
        except EOFError:
            self._remote_open = False
            return
        self._to_pod += answer
        if message is None:
            return
        if message.channel not in self._begun:
            self._begun.add(message.channel)
        elif message.channel == DATA:
            self._to_local += message.data
        elif message.channel == ERROR and message.data:  # the node's words
            self._remote_open = False

    def _read_local(self) -> None:
        try:
            data = self._local.recv(CHUNK)
        except BlockingIOError:
            return
        if data:
            self._to_pod += encode(bytes([DATA]) + data)
        else:
            self._local_open = False

    def _send(self) -> None:
        """Sends a part of the pending data without blocking: the pod may have to be read first."""
        below = self._remote.socket
        timeout = below.gettimeout()
        below.setblocking(False)
        try:
            while self._to_pod:
                del self._to_pod[: below.send(self._to_pod)]  # of TLS one record, 16 KiB
        except _WANT:
            pass
        finally:
            below.settimeout(timeout)
