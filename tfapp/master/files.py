"""Files for containers that see no disk of the master's: HTTPS beside its gRPC, with the same
certificates, for those alone who have the application's credentials.

    GET /containers/ID?attempt=A    what the container is: JSON for tfapp.standalone.bootstrap
    GET /files/SHA256               the content of one of its files
    PUT /files/SHA256               a file that the master waits for, from who submits
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import http.server
import json
import logging
import os
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tfapp.errors import UnavailableError
from tfapp.listener import Admit, Listener
from tfapp.master.launcher import Task, Told
from tfapp.master.messages import file_name, local_path
from tfapp.master.server import Endpoint
from tfapp.protocol.definition import messages

CALL_LIMIT = 60.0  # seconds in which something has to come or go over a connection
CHUNK = 1 << 20

log = logging.getLogger(__name__)


class FileServer:
    """Serves the containers that were offered to it; to be made in the master's event loop.
    As a context manager: serves until it is left. `address`: host:port, for the containers.
    `stay`: see `tfapp.standalone.bootstrap`. `port`: 0 for any. `later`: until `begin` is called,
    those who connect wait. `kept`: what a container has to wait for before it begins."""

    def __init__(self, endpoint: Endpoint, stay: bool = False, port: int = 0, later: bool = False):
        self._later = later
        self.kept: Callable[[], asyncio.Future[None] | None] = lambda: None
        self._listener: Listener | None = None
        self._loop = asyncio.get_running_loop()
        self._stay = stay
        self._uploads: Uploads | None = None
        self._orders: dict[str, _Order] = {}
        self._digests: dict[str, str] = {}  # path -> SHA-256
        self._paths: dict[str, str] = {}  # and back
        self._lock = threading.Lock()
        self._tls = tls_context(endpoint)
        self._socket, self.address = endpoint.listening(port)

    def __enter__(self) -> FileServer:
        if not self._later:
            self.begin()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._listener is not None:
            self._listener.close()
        self._socket.close()

    def begin(self) -> None:
        self._listener = Listener("files", self._socket, self._serve)

    def _serve(self, plain: socket.socket, address: Any, admit: Admit) -> None:
        with self._tls.wrap_socket(plain, server_side=True) as connection:
            admit()  # the handshake was made, with the application's credentials
            connection.settimeout(CALL_LIMIT)
            try:
                _Handler(connection, address, self)  # type: ignore[arg-type]
                connection.shutdown(socket.SHUT_WR)  # the answer comes before the end
            except OSError:
                log.info("a connection from %s was cut", address, exc_info=True)

    @contextmanager
    def offering(self, task: Task, told: Told) -> Iterator[None]:
        """While it is open, the container of `task` can fetch its order. `told.granted` is called
        for the first container that asks, with the address that it asks from."""
        self._orders[task.id] = _Order(task, told)
        try:
            yield
        finally:
            del self._orders[task.id]

    async def receive(
        self,
        digests: Collection[str],
        folder: Path,
        changed: Callable[[tuple[str, ...]], Awaitable[None]],
        limit: float,
    ) -> None:
        """Waits until the files with these SHA-256 were put here, as files of these names in
        `folder`. `changed` is called with those that are missing, at the start and after each.
        UnavailableError when nothing comes for `limit` seconds."""
        missing = tuple(sorted(digests))
        self._uploads = uploads = Uploads(self._loop, folder, missing)
        try:
            await changed(missing)
            while missing:
                got = await uploads.next(limit)
                missing = tuple(digest for digest in missing if digest != got)
                await changed(missing)
        finally:
            self._uploads = None

    # -- in the server's threads --
    def order(self, id: str, attempt: str, host: str) -> dict[str, Any] | None:
        """The order for the container `id`: environment, script and files. None for one that must
        not start: it was killed, another attempt has asked before, or this one does not name
        itself. OSError for a file that is not there."""
        order = self._orders.get(id)
        if order is None or not attempt:
            return None
        task = order.task
        told = {
            "environment": dict(task.environment),
            "script": task.service.script,
            "files": [
                (file_name(target), self._digest(local_path(file.source)), _is_archive(file))
                for target, file in task.service.files.items()
            ],
            "stay": self._stay,
        }
        return told if self._take(order, attempt, host) else None

    def _take(self, order: _Order, attempt: str, host: str) -> bool:
        done: concurrent.futures.Future[bool] = concurrent.futures.Future()

        def take() -> None:
            if not order.attempt and order.told.granted(host):
                order.attempt = attempt
            allowed, kept = order.attempt == attempt, self.kept()
            if kept is None or not allowed:
                done.set_result(allowed)
            else:
                kept.add_done_callback(lambda it: done.set_result(it.exception() is None))

        self._loop.call_soon_threadsafe(take)
        return done.result(CALL_LIMIT)

    @property
    def uploads(self) -> Uploads | None:
        """Takes the files that are waited for, None when there are none."""
        return self._uploads

    def path(self, digest: str) -> str | None:
        """The file with this content, None when there is none. OSError for a file that is not
        there."""
        if digest not in self._paths:  # the master before may have named it to a container
            for order in tuple(self._orders.values()):
                for file in order.task.service.files.values():
                    self._digest(local_path(file.source))
        return self._paths.get(digest)

    def _digest(self, path: str) -> str:
        with self._lock:  # each is read once
            if path not in self._digests:
                found = hashlib.sha256()
                with open(path, "rb") as file:
                    while chunk := file.read(CHUNK):
                        found.update(chunk)
                self._digests[path] = found.hexdigest()
                self._paths[found.hexdigest()] = path
            return self._digests[path]


class _Order:
    def __init__(self, task: Task, told: Told):
        self.task = task
        self.told = told
        self.attempt = ""  # that has asked for it


class RefusedUploadError(Exception):
    """A file that the master does not accept. `status`: the HTTP status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Uploads:
    """Takes files by their content, in the server's threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path, digests: Collection[str]):
        self._arrived: asyncio.Queue[str] = asyncio.Queue()
        self._heard = loop.time()  # when something came last
        self._loop = loop
        self._folder = folder
        self._digests = frozenset(digests)
        self._done: set[str] = set()
        self._lock = threading.Lock()

    async def next(self, limit: float) -> str:
        """The digest of the next file that is there. UnavailableError when nothing comes for
        `limit` seconds."""
        while True:
            left = self._heard + limit - self._loop.time()
            if left <= 0:
                raise UnavailableError(
                    f"the files that the application needs did not come: "
                    f"nothing was heard for {limit:g} s"
                )
            try:
                return await asyncio.wait_for(self._arrived.get(), left)
            except asyncio.TimeoutError:
                continue

    def take(self, digest: str, length: int, read: Callable[[int], bytes]) -> None:
        """Takes `length` bytes from `read`. The file is there whole or not at all, and a second
        upload of it changes nothing. RefusedUploadError; OSError when it cannot be written."""
        if digest not in self._digests:
            raise RefusedUploadError(404, "no such file is waited for")
        partial = self._folder / f".{digest}.{os.urandom(4).hex()}"
        try:
            found = hashlib.sha256()
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                while length > 0 and (chunk := read(min(length, CHUNK))):
                    length -= len(chunk)
                    self._heard = self._loop.time()
                    found.update(chunk)
                    file.write(chunk)
            if length or found.hexdigest() != digest:
                said = f"its SHA-256 is {found.hexdigest()}"
                said = f"it was cut off, {length} bytes are missing" if length else said
                raise RefusedUploadError(400, said)
            with self._lock:
                if digest not in self._done:
                    os.rename(partial, self._folder / digest)
                    self._done.add(digest)
                    self._loop.call_soon_threadsafe(self._arrived.put_nowait, digest)
        finally:
            partial.unlink(missing_ok=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FileServer  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"  # a connection serves for all files of a container

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        _, kind, name = (*url.path.split("/", 2), "", "")[:3]
        try:
            if kind == "containers" and self.server.uploads is not None:
                self._answer(b"files of it are not here yet", 503)
                return
            if kind == "containers":
                attempt = parse_qs(url.query).get("attempt", [""])[0]
                order = self.server.order(name, attempt, self.client_address[0])
                if order is not None:
                    self._answer(json.dumps(order).encode())
                    return
            path = self.server.path(name) if kind == "files" else None
            if path is not None:
                self._send(path)
                return
        except (OSError, UnavailableError) as error:
            log.error("%s: %s", self.path, error)
            self._answer(str(error).encode(), 500)
            return
        self._answer(b"there is no such container or file", 404)

    def do_PUT(self) -> None:
        self.close_connection = True  # what is refused is not read
        kind, _, digest = self.path[1:].partition("/")
        uploads = self.server.uploads
        length = self.headers.get("Content-Length", "")
        try:
            if kind != "files" or uploads is None:
                raise RefusedUploadError(404, "no file is waited for")
            if not length.isdecimal():
                raise RefusedUploadError(411, "it has no Content-Length")
            uploads.take(digest, int(length), self.rfile.read)
        except RefusedUploadError as error:
            self._answer(str(error).encode(), error.status)
        except OSError as error:
            log.error("%s: %s", self.path, error)
            self._answer(f"the master cannot keep it: {error.strerror or error}".encode(), 507)
        else:
            self._answer(b"")

    def _answer(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, path: str) -> None:
        with open(path, "rb") as file:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile, CHUNK)

    def log_message(self, format: str, *args: Any) -> None:
        log.info("%s: %s", self.client_address[0], format % args)


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """The TLS settings of a server that accepts only clients with the application's credentials."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=endpoint.certificate.decode())
    with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:  # ssl reads keys from files alone
        path = Path(folder, "pem")
        path.touch(0o600)
        path.write_bytes(endpoint.key + endpoint.certificate)
        context.load_cert_chain(path)
    return context


def _is_archive(file: Any) -> bool:
    return file.type == messages.File.ARCHIVE
