"""The witness of the masters of one parent: it tells a runner that cannot reach its master whether
that one is lost, and another one on its way, or lives, and the runner is cut off from it.

A runner sends NONCE bytes, which it has made up. The answer is a line, the HMAC of these bytes and
of the rest, and then JSON: `containers`, what the ids of those begin with that may live, and a
`version`. That is another one in each answer for as long as there is a master.
See tfapp.standalone.bootstrap.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
import socket

from tfapp.standalone.bootstrap import NONCE

MOST = 256  # connections; with one more, the oldest ends


class Witness:
    """Served by the loop of a process that waits for `files` to be readable, and then calls
    `serve`, which never waits. Nobody is answered before it knows what to `testify`. `present`:
    whether there is a master that has given a sign of life."""

    def __init__(self) -> None:
        self.present = False
        self._server: socket.socket | None = None
        self._asking: dict[int, tuple[socket.socket, bytes]] = {}  # file -> what it has sent
        self._containers = ""
        self._secret = b""
        self._numbers = itertools.count()

    def testify(self, file: int, containers: str, secret: bytes) -> None:
        """From now on, it answers at the bound socket `file`, a copy of which it takes. `secret`:
        what the containers know, too. OSError."""
        if self._server is None:
            self._server = socket.socket(fileno=socket.dup(file))
            self._server.setblocking(False)
            self._server.listen(MOST)
        self._containers, self._secret = containers, secret

    @property
    def files(self) -> tuple[int, ...]:
        return () if self._server is None else (self._server.fileno(), *self._asking)

    def serve(self) -> None:
        for file in tuple(self._asking):
            self._hear(file)
        with contextlib.suppress(BlockingIOError):
            while self._server is not None:
                try:
                    made, _ = self._server.accept()
                except BlockingIOError:
                    raise
                except OSError:  # such as too many open files: those who wait may ask again
                    self._forget()
                    return
                made.setblocking(False)
                self._asking[made.fileno()] = made, b""
                if len(self._asking) > MOST:
                    self._end(next(iter(self._asking)))

    def close(self) -> None:
        self._forget()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _hear(self, file: int) -> None:
        connection, heard = self._asking[file]
        try:
            data = connection.recv(NONCE - len(heard))
            heard += data
            if len(heard) == NONCE:
                connection.send(self._answer(heard))  # a new connection has room for it
            elif data:
                self._asking[file] = connection, heard
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._end(file)

    def _answer(self, nonce: bytes) -> bytes:
        version = f"alive {next(self._numbers)}" if self.present else "lost"
        said = json.dumps({"containers": self._containers, "version": version}).encode()
        return hmac.digest(self._secret, nonce + said, "sha256").hex().encode() + b"\n" + said

    def _forget(self) -> None:
        for file in tuple(self._asking):
            self._end(file)

    def _end(self, file: int) -> None:
        self._asking.pop(file)[0].close()
