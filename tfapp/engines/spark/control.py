"""The master's server for connections from the driver and from the keepers of containers, which
authenticate with the application's credentials. The first line of a connection is JSON and names
its role:

    {"role": "orders"}      the driver's agent: receives orders for Spark, one JSON line each
    {"role": "reports"}     the driver's agent: reports on what Spark has done
    {"role": "container", "id": ID, "attempt": N, "again": WHETHER}
                            a keeper: see tfapp.standalone.keeper
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from tfapp.listener import LIMIT, Admit, Listener
from tfapp.master.files import tls_context
from tfapp.master.server import Endpoint
from tfapp.standalone.keeper import notice_silence

CONTROL_FILE = "control"  # of a run: the address of this server
WORDS_LIMIT = 10.0  # seconds for Spark's own words about a task of an executor that has ended
ON_DRIVER = "on_driver"  # in a definition: the components that run on the driver's machine
MAX_LINE = 1 << 16
MAX_FRAME = 1 << 26  # bytes; the largest are records of what functions returned

log = logging.getLogger(__name__)


class Ear(Protocol):
    """Receives the messages of the connections, in the event loop."""

    def agent_came(self) -> None:
        """The driver is ready for orders."""

    def agent_left(self) -> None:
        """The connection to the driver has ended, and thus the driver."""

    def report(self, said: Mapping[str, Any]) -> None:
        """A line from the driver's agent."""

    async def container(self, id: str, attempt: int, line: ContainerLine, again: bool) -> None:
        """A keeper is ready to start its container, or keeps one that an earlier master has
        started. Returns when the connection may be closed."""


class ContainerLine:
    """A connection to a keeper."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        self.host: str = writer.get_extra_info("peername")[0]

    def say(self, word: bytes) -> None:
        """Sends a line of tfapp.standalone.keeper."""
        self._writer.write(word)

    async def frame(self) -> tuple[bytes, bytes] | None:
        """The kind and the data of the next frame. None at the end of the connection."""
        try:
            head = await self._reader.readexactly(5)
            kind, (size,) = head[:1], struct.unpack(">I", head[1:])
            if size > MAX_FRAME:
                raise ConnectionError(f"a frame of {size} bytes")
            return kind, await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            log.info("a container's connection has ended: %r", error)
            return None


class Control:
    """Listens on `address` (host:port) from its creation on, and serves from `start` until `close`.
    OSError if it cannot listen."""

    def __init__(self, endpoint: Endpoint, ear: Ear, port: int = 0):
        self._endpoint = endpoint
        self._ear = ear
        self._orders: asyncio.StreamWriter | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop
        self._tls: ssl.SSLContext
        self._socket, self.address = endpoint.listening(port)

    async def start(self) -> None:
        """Accepts connections, including those that are waiting."""
        self._loop, self._tls = asyncio.get_running_loop(), tls_context(self._endpoint)
        self._listener = Listener("control", self._socket, self._come, own_threads=False)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._socket.close()
        for writer in tuple(self._connections):
            writer.close()

    def order(self, what: Mapping[str, Any]) -> bool:
        """Sends an order to the driver's agent. False if it is not connected."""
        if self._orders is None:
            return False
        self._orders.write(json.dumps(what).encode() + b"\n")
        return True

    def _come(self, connection: socket.socket, address: object, admit: Admit) -> None:
        """In the thread of the listener."""
        asyncio.run_coroutine_threadsafe(self._greet(connection, admit), self._loop)

    async def _greet(self, connection: socket.socket, admit: Admit) -> None:
        connection.setblocking(False)
        reader = asyncio.StreamReader(MAX_LINE)
        serve = functools.partial(self._serve, admit)
        try:
            await self._loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader, serve),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=LIMIT,
            )
        except OSError as error:
            log.info("a connection without credentials: %r", error)
            admit()

    async def _serve(
        self, admit: Admit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with self._known(writer), contextlib.suppress(ConnectionError, asyncio.CancelledError):
            notice_silence(writer.get_extra_info("socket"))
            hello = await _line(reader) or {}
            admit()
            role = hello.get("role")
            if role == "orders":
                await self._serve_agent(reader, writer)
            elif role == "reports":
                await self._take_reports(reader)
            elif role == "container":
                line = ContainerLine(reader, writer)
                about = str(hello["id"]), int(hello["attempt"])
                await self._ear.container(*about, line, bool(hello.get("again")))

    @contextmanager
    def _known(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._connections.add(writer)
        try:
            yield
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _serve_agent(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._orders = writer
        self._ear.agent_came()
        await _line(reader)  # nothing comes but the end
        self._orders = None
        self._ear.agent_left()

    async def _take_reports(self, reader: asyncio.StreamReader) -> None:
        while said := await _line(reader):
            try:
                self._ear.report(said)
            except Exception:  # the next report may be the end of a container
                log.exception("a report of the driver cannot be handled: %s", said)


async def _line(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """A line of JSON; None at the end of the stream, and for invalid JSON."""
    try:
        text = await reader.readline()
        found = json.loads(text) if text else None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("a connection said what cannot be read: %r", error)
        return None
    return found if isinstance(found, dict) else None
