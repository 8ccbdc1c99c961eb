"""Calls the HTTP interfaces of YARN's daemons, for data that Skein's driver does not have. Direct,
or through the proxy that the user configures for the cluster (module proxy)."""

from __future__ import annotations

import functools
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from tfapp.engines.yarn.configuration import read_configuration, scheme
from tfapp.engines.yarn.negotiation import log_in
from tfapp.engines.yarn.nodes import Piece, log_path, parse_log
from tfapp.engines.yarn.proxy import PROXY, find_proxy, hint

LIMIT = 10.0  # seconds for one answer
PAUSE = 60.0  # seconds before a login that has failed is tried again


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
        """The body of the answer."""
        return self._ask(url, accept)[0]

    def head(self, url: str) -> Message:
        """The headers of the answer, also of an error."""
        return self._ask(url, "*/*", "HEAD")[1]

    def read_json(self, url: str) -> Any:
        """The answer, parsed as JSON."""
        try:
            return json.loads(self.get(url))
        except ValueError as error:
            raise OSError(f"{url} is not JSON") from error

    def read_log(self, node: str, container: str, file: str, last: int) -> Piece:
        """The last `last` bytes of a log on the NodeManager `node` (host:port). It does not exist
        before the log is begun, after the end of the application, or when the node is lost."""
        page = self.page_of(node, log_path(container, file, last))
        return parse_log(self.get(page, "text/plain"), last)

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

    def _ask(self, url: str, accept: str, method: str = "GET") -> tuple[bytes, Message]:
        where = urlsplit(url).netloc
        request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
        try:
            return self._open(request, where)
        except _NegotiateError:
            self._log_in(url, where)
            return self._open(request, where)

    def _open(self, request: urllib.request.Request, where: str) -> tuple[bytes, Message]:
        if where in self._cookies:
            # Of this host alone: what another one is asked may pass a proxy in plain text.
            request.add_unredirected_header("Cookie", self._cookies[where])
        try:
            with self._opener.open(request, timeout=self._limit) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                words = f"{where} says {error.code} {error.reason}"
                if error.code == 401 and "negotiate" in _challenge(error):
                    raise _NegotiateError(words) from error
                if request.method == "HEAD":
                    return b"", error.headers
                if error.code in (401, 403):
                    raise DeniedError(words) from error
                raise
        except urllib.error.URLError as error:
            told = hint(self._environ)
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

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        cookie = req.get_header("Cookie")
        if new is not None and cookie and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            new.add_unredirected_header("Cookie", cookie)
        return new


class _NegotiateError(DeniedError):
    pass


def _challenge(error: urllib.error.HTTPError) -> str:
    return error.headers.get("WWW-Authenticate", "").lower()
