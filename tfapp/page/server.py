"""Serves pages on this machine's loopback address, to those who know the token in their address."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.server
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tfapp.frozen import frozen
from tfapp.page.document import encoded, of_error
from tfapp.page.html import page, policy

LOOPBACK = "127.0.0.1"
IDLE = 60.0  # seconds after which a connection without requests is closed
MAX_CONNECTIONS = 64

_TITLES = {403: "Not allowed", 404: "Not found", 503: "No answer"}

HTML, JSON = "text/html; charset=utf-8", "application/json"


@frozen
class Request:
    """`path`: below the token, without a slash before it. `base`: the URL of the place below which
    it is, with a slash at its end. `query`: the last value of each name."""

    path: str
    base: str
    query: Mapping[str, str]


@frozen
class Answer:
    """`status`: 200, or 301 (`body` is the path). `error`: why there is no
    answer; a person with a browser gets it as a page."""

    body: bytes
    type: str = JSON
    status: int = 200
    error: str = ""


def shown(document: Mapping[str, Any]) -> Answer:
    """The page of a document."""
    return Answer(page(document).encode(), HTML)


def data(value: Any) -> Answer:
    """JSON for programs."""
    return Answer(json.dumps(value, indent=2).encode())


def news(document: Mapping[str, Any], request: Request, clock: float) -> Answer:
    """What an open page that asks for news gets: the document, unless it is what the page has seen
    last. `clock`: seconds since 1970."""
    body = encoded(document)
    seen = hashlib.sha256(body).hexdigest()[:32]
    if request.query.get("seen") == seen:
        return NOTHING_NEW
    return Answer(b'{"clock":%f,"seen":"%s","document":%s}' % (clock, seen.encode(), body))


def failed(status: int, why: str) -> Answer:
    """An error, 403, 404 or 503 (the next look may find it)."""
    return Answer(data({"error": why}).body, status=status, error=why)


# Not 204: YARN's proxy fails on an answer without a body (WebAppProxyServlet of Hadoop 3.4.2).
NOTHING_NEW = Answer(b"null")
NOT_FOUND = failed(404, "there is nothing of this name")


def moved(path: str) -> Answer:
    """Another place, relative to the one that was asked for."""
    return Answer(path.encode(), status=301)


class PageServer(http.server.ThreadingHTTPServer):
    """`answer` is called by several threads. With `proxied`, another program of this machine leads
    browsers here, and its own checks stand before this one's: the Host is not looked at."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Request], Answer], port: int = 0, proxied: bool = False):
        super().__init__((LOOPBACK, port), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.answer = answer
        self.proxied = proxied
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)

    @property
    def address(self) -> str:
        """The URL of the first page."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @contextlib.contextmanager
    def serving(self) -> Iterator[PageServer]:
        """It serves, beside the caller, as long as this is open."""
        thread = threading.Thread(target=self.serve_forever, name="pages", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuses those that are too many, so that threads are not without number."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is no error."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer())

    def version_string(self) -> str:
        return "tfapp"

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: an address has the token in it."""

    def _answer(self) -> Answer:
        ours = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        # A page of elsewhere whose name leads here (DNS rebinding) has another Host.
        if not self.server.proxied and self.headers.get("Host", "") not in ours:
            return failed(403, "this server answers to its loopback address alone")
        parts = urlsplit(self.path)
        token, slash, path = parts.path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return failed(403, "the token in the address is not the one that was printed")
        if not slash:
            return moved(f"/{token}/")
        base = f"http://{self.headers.get('Host', '')}/{token}/"
        return self.server.answer(Request(unquote(path), base, dict(parse_qsl(parts.query))))

    def _told(self, answer: Answer) -> str:
        """The page of an error."""
        below = urlsplit(self.path).path.lstrip("/").partition("/")[2]
        known = answer.status != 403
        up = "../" * below.count("/") or "./" if known else ""
        why = f"{answer.error[:1].upper()}{answer.error[1:].rstrip('.')}."
        return page(of_error(_TITLES[answer.status], why, up, again=answer.status == 503))

    def _send(self, answer: Answer) -> None:
        if answer.error and "text/html" in self.headers.get("Accept", ""):
            answer = Answer(self._told(answer).encode(), HTML, answer.status)
        self.send_response(answer.status)
        headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy(),
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        body = answer.body
        if answer.status == 301:
            headers["Location"], body = body.decode(), b""
        headers |= {"Content-Type": answer.type, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
