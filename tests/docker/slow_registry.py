"""Stands between the engine and a registry, and holds back what it sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_CHUNK = 64 * 1024
_PACE = 0.02  # seconds; the engine tells ten times a second how much it has


class SlowRegistry:
    """Listens at `port` for clients of the registry at `target`. Each connection carries `first`
    bytes of the registry's at a modest pace, and more when `let_go` is set."""

    def __init__(self, target: int, first: int):
        self.let_go = threading.Event()
        self._target, self._first = target, first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        _background(self._accept)

    def close(self) -> None:
        """Holds nothing back any more, and takes no more clients."""
        self.let_go.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            registry = socket.create_connection(("127.0.0.1", self._target))
            _background(self._carry, client, registry, False)
            _background(self._carry, registry, client, True)

    def _carry(self, source: socket.socket, sink: socket.socket, slowly: bool) -> None:
        left = self._first
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                left -= len(data)
                if slowly:
                    self.let_go.wait(_PACE if left > 0 else None)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            if end is source:
                end.close()


@contextlib.contextmanager
def slowly(target: int, first: int) -> Iterator[SlowRegistry]:
    """A slow registry for the time of a block."""
    slow = SlowRegistry(target, first)
    try:
        yield slow
    finally:
        slow.close()


def _background(work, *args) -> None:
    threading.Thread(target=work, args=args, daemon=True).start()
