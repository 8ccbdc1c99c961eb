"""The one place where connections are accepted. Whoever connects is a guest until it has shown its
credentials and its first words. Guests are few, and have little time: neither idle connections, nor
slow ones, nor a moment without threads or files keep out those who belong here.

This module is shipped to programs, so it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from tfapp import threads

MOST = 64  # guests at once; others wait in the kernel's queue
LIMIT = 20.0  # seconds after which a guest has to be admitted
PLACE = 2.0  # seconds after which a guest makes room if others wait

Admit = Callable[[], None]
Serve = Callable[[socket.socket, Any, Admit], object]


class Guests:
    """Who has connected and was not admitted yet. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._changed = threading.Condition()
        self._since: dict[socket.socket, float] = {}  # the oldest first

    def add(self, connection: socket.socket) -> Admit:
        """Adds a connection. The result admits it, or forgets one that has ended."""
        twin = connection.dup()  # reaches the connection, whoever has wrapped it in TLS
        with self._changed:
            self._since[twin] = self._clock()

        def admit() -> None:
            with self._changed:
                if self._since.pop(twin, None) is not None:
                    twin.close()
                    self._changed.notify_all()

        return admit

    def look(self, short: bool = False) -> float:
        """Ends the connections of guests whose time is over. `short`: as if there were MOST.
        Returns the seconds until the next one has to go, infinity for none."""
        with self._changed:
            while self._since:
                twin, since = next(iter(self._since.items()))
                crowded = short or len(self._since) >= MOST
                left = since + (PLACE if crowded else LIMIT) - self._clock()
                if left > 0:
                    return left
                del self._since[twin]
                _end(twin)
        return float("inf")

    def wait_for_room(self, timeout: float) -> bool:
        """Whether there are fewer than MOST, within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._since) < MOST, timeout)

    def clear(self) -> None:
        with self._changed:
            for twin in self._since:
                _end(twin)
            self._since.clear()


class Listener:
    """Calls `serve(connection, address, admit)` for each connection to `listening`, until `close`:
    in a thread of its own, or in that of the listener. It must call `admit()` as soon as it knows
    the other side, and close the connection. An OSError means that the other side has gone."""

    def __init__(self, name: str, listening: socket.socket, serve: Serve, own_threads: bool = True):
        self._name, self._socket, self._serve = name, listening, serve
        self._own_threads = own_threads
        self._guests = Guests()
        self._next: tuple[socket.socket, Any] | None = None  # waits for a thread
        self._closed = False
        threads.keep(name, self._run)

    def close(self) -> None:
        """Stops listening, and ends the connections of all guests."""
        self._closed = True
        _end(self._socket)
        self._guests.clear()

    def _run(self) -> None:
        while not self._closed and self._socket.fileno() >= 0:
            pause = min(self._guests.look(self._next is not None), LIMIT)
            if self._next is None and self._guests.wait_for_room(pause):
                self._next = self._accept(pause)
            if self._next is not None:
                self._begin(*self._next)
                self._next = None

    def _accept(self, pause: float) -> tuple[socket.socket, Any] | None:
        """The next connection, if there is one within `pause` seconds."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return self._socket.accept() if poll.poll(pause * 1000) else None
        except (OSError, ValueError):
            if self._closed or self._socket.fileno() < 0:
                return None
            raise  # too many files are open; after a moment again

    def _begin(self, connection: socket.socket, address: Any) -> None:
        admit = self._guests.add(connection)
        if not self._own_threads:
            self._welcome(connection, address, admit)
            return
        try:
            threads.start(self._name, self._welcome, connection, address, admit)
        except OSError:  # after a moment again; it keeps its place
            admit()
            raise

    def _welcome(self, connection: socket.socket, address: Any, admit: Admit) -> None:
        try:
            with contextlib.suppress(OSError):
                self._serve(connection, address, admit)
        finally:
            if self._own_threads:
                admit()
                with contextlib.suppress(OSError):  # an answer comes before the end
                    connection.shutdown(socket.SHUT_WR)
                connection.close()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
