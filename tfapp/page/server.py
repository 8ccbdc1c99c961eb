"""Serves pages on this machine's loopback address, to browsers that send the token in the URL."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.server
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tfapp.frozen import frozen
from tfapp.listener import Admit, Listener
from tfapp.page import stacks
from tfapp.page.document import PAUSE, encoded, of_error
from tfapp.page.html import page, policy

LOOPBACK = "127.0.0.1"
IDLE = 60.0  # seconds after which a connection without requests is closed
MOST_STREAMS = 16  # open pages that are told of news; others ask for them
SIGN_OF_LIFE = 15.0  # seconds without news after which a stream says that it lives
EVENTS = "events"  # path beside a page: its stream of news (About.can)

_TITLES = {403: "Not allowed", 404: "Not found", 503: "No answer"}

HTML, JSON, STREAM = "text/html; charset=utf-8", "application/json", "text/event-stream"


@frozen
class PageRequest:
    """A request. `path`: below the token, without a leading slash. `base`: the URL that `path` is
    relative to, with a trailing slash. `query`: the last value of each parameter. `post`: what is
    shown is to be made now."""

    path: str
    base: str
    query: Mapping[str, str]
    post: bool = False


@frozen
class PageAnswer:
    """An answer. `status`: the HTTP status; with 301, `body` is the new path. `error`: the message
    of an error; a browser gets a page with it in place of `body`. `stream`: in place of all this,
    the document of which a stream is to tell what changes."""

    body: bytes
    type: str = JSON
    status: int = 200
    error: str = ""
    stream: Mapping[str, Any] | None = None


def data(value: Any) -> PageAnswer:
    """A value as JSON, for programs; NOT_FOUND for None."""
    return NOT_FOUND if value is None else PageAnswer(json.dumps(value, indent=2).encode())


def shown(document: Mapping[str, Any], request: PageRequest, clock: float) -> PageAnswer:
    """The page of `document`. For an open page, which asks at "data.json" for a newer one, the
    document, or NOTHING_NEW if the page has it already; a stream for one that listens at EVENTS.
    `clock`: seconds since 1970."""
    if request.path.endswith(EVENTS):
        return PageAnswer(b"", stream=document)
    if not request.path.endswith("data.json"):
        return PageAnswer(page(document).encode(), HTML)
    body = encoded(document)
    seen = hashlib.sha256(body).hexdigest()[:32]
    if request.query.get("seen") == seen:
        return NOTHING_NEW
    return PageAnswer(b'{"clock":%f,"seen":"%s","document":%s}' % (clock, seen.encode(), body))


def failed(status: int, why: str) -> PageAnswer:
    """An error with status 403, 404 or 503. The page of a 503 tries again by itself."""
    return PageAnswer(data({"error": why}).body, status=status, error=why)


# Not 204: YARN's proxy fails on an answer without a body (WebAppProxyServlet of Hadoop 3.4.2).
NOTHING_NEW = PageAnswer(b"null")
NOT_FOUND = failed(404, "there is nothing of this name")


def moved(path: str) -> PageAnswer:
    """A redirect to `path`, which is relative to the request."""
    return PageAnswer(path.encode(), status=301)


class PageServer:
    """The server of pages. `answer` is called by several threads. `proxied`: a proxy on this
    machine, which has checks of its own, forwards requests; the Host header is not checked then.
    OSError if the port is taken."""

    def __init__(
        self, answer: Callable[[PageRequest], PageAnswer], port: int = 0, proxied: bool = False
    ):
        self._socket = socket.create_server((LOOPBACK, port), backlog=128)
        self.server_port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        self.answer = answer
        self.proxied = proxied
        self.streams = threading.Semaphore(MOST_STREAMS)
        self.closed = False

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @contextlib.contextmanager
    def serving(self) -> Iterator[PageServer]:
        """Serves in another thread as long as the `with` block runs."""
        listener = Listener("pages", self._socket, lambda *come: _Handler(self, *come))
        try:
            yield self
        finally:
            self.closed = True
            listener.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Handles one connection. `admit`: called for the first request with the token."""

    server: PageServer  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    timeout = IDLE

    def __init__(self, server: PageServer, connection: Any, address: Any, admit: Admit):
        self._admit = admit
        super().__init__(connection, address, server)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer())

    def do_POST(self) -> None:
        """Nothing can be changed, but stacks and traces be taken. Not over a proxy: YARN's has no
        POST, and those who may see a page need not be its owner."""
        ends = (f"/{stacks.PATH}", f"/{stacks.PROFILE}")
        if self.server.proxied or not urlsplit(self.path).path.endswith(ends):
            self.send_error(501)
            return
        self.close_connection = self.headers.get("Content-Length", "0") != "0"  # nobody reads it
        self._send(self._answer())

    def version_string(self) -> str:
        return "tfapp"

    def log_message(self, format: str, *args: object) -> None:
        """Writes no log: addresses contain the token."""

    def _answer(self) -> PageAnswer:
        ours = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        # Against DNS rebinding: a foreign page whose name resolves to this address sends that name.
        if not self.server.proxied and self.headers.get("Host", "") not in ours:
            return failed(403, "this server answers to its loopback address alone")
        parts = urlsplit(self.path)
        token, slash, path = parts.path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return failed(403, "the token in the address is not the one that was printed")
        self._admit()
        if not slash:
            return moved(f"/{token}/")
        base = f"http://{self.headers.get('Host', '')}/{token}/"
        query, post = dict(parse_qsl(parts.query)), self.command == "POST"
        return self.server.answer(PageRequest(unquote(path), base, query, post))

    def _told(self, answer: PageAnswer) -> str:
        below = urlsplit(self.path).path.lstrip("/").partition("/")[2]
        known = answer.status != 403
        up = "../" * below.count("/") or "./" if known else ""
        why = f"{answer.error[:1].upper()}{answer.error[1:].rstrip('.')}."
        return page(of_error(_TITLES[answer.status], why, up, again=answer.status == 503))

    def _send(self, answer: PageAnswer) -> None:
        if answer.stream is not None:
            if self.server.streams.acquire(blocking=False):
                try:
                    self._tell(answer)
                finally:
                    self.server.streams.release()
                return
            answer = failed(503, "too many pages are open")
        if answer.error and "text/html" in self.headers.get("Accept", ""):
            answer = PageAnswer(self._told(answer).encode(), HTML, answer.status)
        self._begin(answer)
        if self.command != "HEAD":
            self.wfile.write(answer.body if answer.status != 301 else b"")

    def _tell(self, answer: PageAnswer) -> None:
        """Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): the
        fields of the document that are new, until the browser goes or there is no document. It
        looks for them as often as a page would that asks."""
        self.close_connection = True
        self._begin(PageAnswer(b"", STREAM))
        known: dict[str, Any] = {}
        told = time.monotonic()
        here = select.poll()
        here.register(self.connection, select.POLLIN)
        while answer.stream is not None and self.command != "HEAD":
            news = {
                key: v for key, v in answer.stream.items() if key not in known or known[key] != v
            }
            if news or time.monotonic() >= told + SIGN_OF_LIFE:
                data = b'data: {"clock":%f,"document":%s}' % (time.time(), encoded(news))
                self.wfile.write(data + b"\n\n" if news else b":\n\n")
                told = time.monotonic()
            known.update(news)
            if here.poll(1000 * (answer.stream["pause"] or PAUSE)) or self.server.closed:
                return  # it says nothing but that it goes
            answer = self._answer()

    def _begin(self, answer: PageAnswer) -> None:
        self.send_response(answer.status)
        headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy(),
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        length = len(answer.body)
        if answer.status == 301:
            headers["Location"], length = answer.body.decode(), 0
        headers["Content-Type"] = answer.type
        if answer.type != STREAM:
            headers["Content-Length"] = str(length)
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
