"""What YARN's daemons say over HTTP, where Skein's driver does not tell it."""

from __future__ import annotations

import dataclasses
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

LIMIT = 10.0  # seconds for one answer
PAUSE = 60.0  # seconds before a login that has failed is tried again

# NodeManager's frame around a log.
_LENGTH = b"\nLogLength:"
_BEGIN = b"\nLogContents:\n"


class DeniedError(OSError):
    """A daemon does not show this to the user; the text says why."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """The end of a log: `data` is its last bytes, `length` its whole length now."""

    data: bytes
    length: int


class Web:
    """The daemons' pages, as who the user of `environ` is where Kerberos protects them. Every
    method raises OSError (urllib's errors are) when there is no such answer, DeniedError where
    the user is not let in."""

    def __init__(self, environ: Mapping[str, str], limit: float = LIMIT):
        self._environ = environ
        self._limit = limit
        # By host:port; why there is none, and when to try again.
        self._cookies: dict[str, str] = {}
        self._denied: dict[str, tuple[str, float]] = {}

    def get(self, url: str, accept: str = "application/json") -> bytes:
        """The answer's body."""
        return self._ask(url, accept)[0]

    def head(self, url: str) -> Message:
        """The answer's headers, of a page or of an error."""
        return self._ask(url, "*/*", "HEAD")[1]

    def read_json(self, url: str) -> Any:
        """The answer's content."""
        try:
            return json.loads(self.get(url))
        except ValueError as error:
            raise OSError(f"{url} is not JSON") from error

    def read_log(self, node: str, container: str, file: str, last: int) -> Piece:
        """The last `last` bytes of a log on NodeManager `node` (host:port). There is none before
        it is begun, after the application's end, when the node is lost."""
        path = f"ws/v1/node/containers/{container}/logs/{file}?size=-{last}"
        return parse_log(self.get(self.page_of(node, path), "text/plain"), last)

    def page_of(self, node: str, path: str = "") -> str:
        """The URL of a page of NodeManager `node` (host:port)."""
        return f"{self._scheme}://{node}/{path}"

    @functools.cached_property
    def _scheme(self) -> str:
        return scheme(read_configuration(self._environ))

    def application(self, tracking_url: str, application_id: str) -> dict[str, Any]:
        """The ResourceManager's facts of an application; its address is taken from the
        application's own."""
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
            request.add_header("Cookie", self._cookies[where])
        try:
            with urllib.request.urlopen(request, timeout=self._limit) as answer:
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
        except http.client.HTTPException as error:  # HTTPS, or another protocol
            raise OSError(f"{where} does not speak HTTP: {error!r}") from error

    def _log_in(self, url: str, where: str) -> None:
        denied = self._denied.get(where)
        if denied is None or denied[1] < time.monotonic():
            try:
                self._cookies[where] = log_in(url, self._environ, self._limit)
                return
            except OSError as error:
                denied = (str(error), time.monotonic() + PAUSE)
                self._denied[where] = denied
        raise DeniedError(f"{where} asks for Kerberos: {denied[0]}")


class _NegotiateError(DeniedError):
    pass


def _challenge(error: urllib.error.HTTPError) -> str:
    return error.headers.get("WWW-Authenticate", "").lower()


def parse_log(answer: bytes, last: int) -> Piece:
    """Takes a NodeManager's frame off a log. OSError when there is no such frame."""
    head, begin, rest = answer.partition(_BEGIN)
    _, found, number = head.rpartition(_LENGTH)
    digits = number.split(b"\n")[0]
    if not begin or not found or not digits.isdigit():
        raise OSError("a NodeManager's answer is not a log")
    length = int(digits)
    return Piece(rest[: min(length, last)], length)
