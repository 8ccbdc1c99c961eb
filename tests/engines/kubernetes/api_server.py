"""A small HTTP server that answers as a test says."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Answer(NamedTuple):
    """`body`: JSON, or text as it is. `broken`: the connection ends in the middle of the answer."""

    body: Any = {}
    code: int = 200
    headers: dict[str, str] = {}
    broken: bool = False


class Request(NamedTuple):
    """What a client asked for."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class ApiServer:
    """`answers`: those still to be given, in this order; without any, it is a 404."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        handler = type("Handler", (_Handler,), {"of": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[ApiServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    of: ApiServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        parts = urlsplit(self.path)
        body = json.loads(text) if text else None
        query = dict(parse_qsl(parts.query))
        self.of.requests.append(Request(self.command, parts.path, query, dict(self.headers), body))
        answer = self.of.answers.pop(0) if self.of.answers else Answer({}, 404)
        data = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if answer.broken:
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def status(reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A refusal, as an API server words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "details": details,
    }
