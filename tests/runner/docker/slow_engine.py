"""Stands between clients and the engine, and holds back what they ask for."""

import re
import socket
import threading
from pathlib import Path

LIMIT = 60.0
_CHUNK = 64 * 1024


class SlowEngine:
    """Listens at `path` for clients of the engine at `target`. `asked` is set once a container
    was asked for in full, which reaches the engine only when `let_go` is; `listed` when a list
    was."""

    def __init__(self, path: Path, target: Path):
        self.host = f"unix://{path}"
        self.asked, self.let_go = threading.Event(), threading.Event()
        self.listed = threading.Event()
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        _background(self._accept)

    def close(self) -> None:
        """Takes no more clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(str(self._target))
            _background(self._ask, client, engine)
            _background(self._answer, engine, client)

    def _ask(self, client: socket.socket, engine: socket.socket) -> None:
        """The engine is not told that the client is gone."""
        with client:
            while data := _receive(client):
                if b"/containers/create" in data:
                    data = _whole(data, client)
                    self.asked.set()
                    self.let_go.wait(LIMIT)
                if b"/containers/json" in data:
                    self.listed.set()
                engine.sendall(data)

    def _answer(self, engine: socket.socket, client: socket.socket) -> None:
        with engine:
            while data := _receive(engine):
                try:
                    client.sendall(data)
                except OSError:
                    continue


def _whole(request: bytes, client: socket.socket) -> bytes:
    """With its body, which comes after its head: of a client that is killed in between, the
    engine would have half a request."""
    while True:
        head, _, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"^content-length: *(\d+)", head, re.IGNORECASE | re.MULTILINE)
        assert length is not None, request
        if len(body) >= int(length[1]) or not (more := _receive(client)):
            return request
        request += more


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


def _background(work, *args) -> None:
    threading.Thread(target=work, args=args, daemon=True).start()
