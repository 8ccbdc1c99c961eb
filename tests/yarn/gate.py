"""A way to a daemon that a test closes and opens."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Gate:
    """Passes connections on to `port` on this machine. While it is closed it takes them and what
    they send, and nothing comes back, as from a machine that hangs."""

    def __init__(self, port: int):
        self._to = port
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def shut(self) -> None:
        """Nothing passes any more."""
        self._open.clear()

    def open(self) -> None:
        """All passes again, also what has come meanwhile."""
        self._open.set()

    def close(self) -> None:
        """There is no gate any more, once the last of its connections has ended."""
        self.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:  # the first one adds no more while it is waited for
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(near,)))
                self._threads[-1].start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._to)) as far:
            back = threading.Thread(target=self._pass, args=(far, near))
            back.start()
            self._pass(near, far)
            back.join()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self._open.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def gate(port: int) -> Iterator[Gate]:
    """One that is gone afterwards."""
    made = Gate(port)
    try:
        yield made
    finally:
        made.close()
