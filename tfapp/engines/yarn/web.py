"""Calls the HTTP interfaces of YARN's daemons, for data that Skein's driver does not have. Direct,
or through the proxy that the user configures for the cluster."""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from tfapp import tools
from tfapp.engines.yarn.configuration import (
    PROXY,
    find_proxy,
    proxy_hint,
    read_configuration,
    scheme,
)
from tfapp.engines.yarn.kerberos import CACHE, find_keytab, ticket_file
from tfapp.engines.yarn.nodes import LogPiece, log_length, log_path, read_piece

LIMIT = 10.0  # seconds for one answer
PIECE = 1 << 20  # bytes of a log that are held at a time
PAUSE = 60.0  # seconds before a login that has failed is tried again

_COOKIE = re.compile(r"^set-cookie: *(hadoop\.auth=[^;\r\n]+)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(r"^HTTP/\S+ (.+?)\r?$", re.MULTILINE)

T = TypeVar("T")


class DeniedError(OSError):
    """A daemon refuses access; the text gives the reason."""


class Web:
    """The pages of the daemons, as the Kerberos user of `environ` if they are protected. Methods
    raise OSError (or urllib's subclasses) if there is no answer, and DeniedError if access is
    refused."""

    def __init__(self, environ: Mapping[str, str], limit: float = LIMIT):
        self._environ = environ
        self._limit = limit
        self._proxy = find_proxy(environ)
        proxies = {"http": self._proxy, "https": self._proxy} if self._proxy else {}
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies), _SameHostCookies()
        )
        # By host:port; why there is none, and when to try again.
        self._cookies: dict[str, str] = {}
        self._denied: dict[str, tuple[str, float]] = {}

    def get(self, url: str, accept: str = "application/json") -> bytes:
        return self._ask(url, accept, take=lambda answer: answer.read())

    def head(self, url: str) -> Message:
        """The headers of the answer, also of an error."""
        return self._ask(url, "*/*", "HEAD", take=lambda answer: answer.headers)

    def read_json(self, url: str) -> Any:
        try:
            return json.loads(self.get(url))
        except ValueError as error:
            raise OSError(f"{url} is not JSON") from error

    def read_log(self, node: str, container: str, file: str, last: int) -> LogPiece:
        """The last `last` bytes of a log on the NodeManager `node` (host:port). It does not exist
        before the log is begun, after the end of the application, or when the node is lost."""
        page = self.page_of(node, log_path(container, file, last))
        return self._ask(page, "text/plain", take=lambda answer: read_piece(answer, last))

    def copy_log(
        self,
        node: str,
        container: str,
        file: str,
        span: tuple[int, int],
        margin: int,
        write: Callable[[bytes], None],
    ) -> bool:
        """Calls `write` with the bytes of a log from one offset to another (`span`), of which no
        more than PIECE are held at a time. The log is read from its end, so that it may grow by
        `margin` bytes until it is shown. Returns False, without a call, if it has grown by more, or
        is shorter than that."""
        begin, end = span
        last = end - begin + margin

        def take(answer: IO[bytes]) -> bool:
            length = log_length(answer)
            before = min(length, last) - (length - begin)
            if before < 0 or length < end:
                return False
            for _ in _pieces(answer, before):
                pass
            for piece in _pieces(answer, end - begin):
                write(piece)
            return True

        page = self.page_of(node, log_path(container, file, last))
        return self._ask(page, "text/plain", take=take)

    def page_of(self, node: str, path: str = "") -> str:
        """The URL of a page of NodeManager `node` (host:port)."""
        return f"{self._scheme}://{node}/{path}"

    @functools.cached_property
    def _scheme(self) -> str:
        return scheme(read_configuration(self._environ))

    def application(self, tracking_url: str, application_id: str) -> dict[str, Any]:
        """The ResourceManager's data of an application. Its address is taken from the application's
        tracking URL."""
        manager, proxy, _ = tracking_url.partition("/proxy/")
        if not proxy:
            raise OSError(f"{tracking_url!r} does not lead to a ResourceManager")
        return self.read_json(f"{manager}/ws/v1/cluster/apps/{application_id}")["app"]

    def _ask(self, url: str, accept: str, method: str = "GET", *, take: Callable[[Any], T]) -> T:
        where = urlsplit(url).netloc
        request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
        try:
            return self._open(request, where, take)
        except _NegotiateError:
            self._log_in(url, where)
            return self._open(request, where, take)

    def _open(self, request: urllib.request.Request, where: str, take: Callable[[Any], T]) -> T:
        """What `take` makes of the answer. For HEAD that may be an error."""
        if where in self._cookies:
            # Of this host alone: what another one is asked may pass a proxy in plain text.
            request.add_unredirected_header("Cookie", self._cookies[where])
        try:
            with self._opener.open(request, timeout=self._limit) as answer:
                return take(answer)
        except urllib.error.HTTPError as error:
            with error:
                words = f"{where} says {error.code} {error.reason}"
                challenge = error.headers.get("WWW-Authenticate", "").lower()
                if error.code == 401 and "negotiate" in challenge:
                    raise _NegotiateError(words) from error
                if request.method == "HEAD":
                    return take(error)
                if error.code in (401, 403):
                    raise DeniedError(words) from error
                raise
        except urllib.error.URLError as error:
            told = proxy_hint(self._environ)
            if not told:
                raise
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise OSError(f"{reason}{told}") from error
        except http.client.HTTPException as error:  # HTTPS, or another protocol
            raise OSError(f"{where} does not speak HTTP: {error!r}") from error

    def _log_in(self, url: str, where: str) -> None:
        if self._proxy and urlsplit(url).scheme == "http":
            raise DeniedError(
                f"{where} asks for Kerberos, and {PROXY} would get the login in plain text: "
                "unset it, or have the cluster's pages speak HTTPS"
            )
        denied = self._denied.get(where)
        if denied is None or denied[1] < time.monotonic():
            try:
                self._cookies[where] = log_in(url, self._environ, self._limit, self._proxy)
                return
            except OSError as error:
                denied = (str(error), time.monotonic() + PAUSE)
                self._denied[where] = denied
        raise DeniedError(f"{where} asks for Kerberos: {denied[0]}")


class _SameHostCookies(urllib.request.HTTPRedirectHandler):
    """Keeps the cookie when a daemon redirects to another of its own pages."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        cookie = req.get_header("Cookie")
        if new is not None and cookie and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            new.add_unredirected_header("Cookie", cookie)
        return new


class _NegotiateError(DeniedError):
    pass


def _pieces(answer: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes, or fewer if it ends before."""
    while size and (piece := answer.read(min(size, PIECE))):
        size -= len(piece)
        yield piece


def log_in(url: str, environ: Mapping[str, str], limit: float, proxy: str = "") -> str:
    """The cookie of a login at a page that Kerberos protects (SPNEGO), which is valid for hours. By
    curl: machines of a cluster have it; the libraries of Python do not support SPNEGO, or need a
    compiler. `limit`: seconds. `proxy`: the URL of a
    proxy for `url`. OSError with the reason in words."""
    with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
        cache = ticket_file(environ)
        keytab = find_keytab(environ)
        if keytab is not None:
            cache = os.path.join(folder, "ticket")
            own = {**environ, CACHE: f"FILE:{cache}"}
            _run(own, limit, "kinit", "-k", "-t", keytab[0], keytab[1])
        words = ("-sS", "--negotiate", "--user", ":", "--max-time", f"{limit:g}")
        way = ("--proxy", proxy, "--noproxy", "") if proxy else ("--noproxy", "*")
        output = ("--output", os.devnull, "--dump-header", "-")
        said = _run({**environ, CACHE: f"FILE:{cache}"}, limit, "curl", *words, *way, *output, url)
    cookies = [found for found in _COOKIE.findall(said) if not found.endswith("=")]
    if not cookies:
        raise OSError((_STATUS.findall(said) or ["it gave no reason"])[-1])
    return cookies[-1]


def _run(environ: Mapping[str, str], limit: float, program: str, *words: str) -> str:
    try:
        return tools.output([program, *words], environ, limit + 1)
    except tools.ToolError as error:
        raise OSError(str(error)) from error
