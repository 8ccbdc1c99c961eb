"""A way to a daemon that a test closes and opens."""

import contextlib
import socket
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16
_PACE = 0.02  # seconds between pieces that pass although it is shut


class Gate:
    """Passes connections on to `port` on this machine. While it is shut it takes them and what
    they send, and nothing comes back, as from a machine that hangs; but for the first `leak`
    bytes of each connection, which pass slowly."""

    def __init__(self, port: int, leak: int = 0):
        self._to, self._leak = port, leak
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._passing: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def shut(self) -> None:
        """Nothing more passes than what leaks."""
        self._open.clear()

    def open(self) -> None:
        """All passes again, also what has come meanwhile."""
        self._open.set()

    def close(self) -> None:
        """There is no gate any more. Its connections are cut."""
        self.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        for end in self._ends:
            with contextlib.suppress(OSError):  # it has ended
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._passing:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._ends.append(near)
                far = socket.create_connection(("127.0.0.1", self._to))
                self._ends.append(far)
                for pair in ((near, far), (far, near)):
                    self._passing.append(threading.Thread(target=self._pass, args=pair))
                    self._passing[-1].start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := one.recv(_CHUNK):
                passed += len(data)
                self._open.wait(_PACE if passed <= self._leak else None)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def gate(port: int, leak: int = 0) -> Iterator[Gate]:
    """One that is gone afterwards."""
    made = Gate(port, leak)
    try:
        yield made
    finally:
        made.close()
