"""Requests to the API server over one HTTP connection pool, and their errors.

Bodies are plain JSON on the pool of the library's REST client: its typed methods validate bodies
against the models of their own version, and their signatures differ between versions.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfapp.engines.kubernetes.configuration import Access, one_line
from tfapp.engines.kubernetes.failures import Asked, AwayError, failure
from tfapp.errors import UnavailableError

JSON = "application/json"
MERGE = "application/merge-patch+json"

CONNECT, READ = 10.0, 60.0  # seconds of silence
PATIENCE = 30.0  # seconds in which an API server that has answered before is asked again
SLOWEST = 5.0  # seconds between two attempts
LATER = frozenset({429, 503})  # it did nothing, and asks to come again
FAILED = frozenset({500, 502, 504})  # it may have done it
CHECK = "Is it the right cluster, and can this machine reach it?"

Query = Sequence[tuple[str, str]]


class Transport:
    """The API server of `access`. `renewed`: reads the configuration again. Thread-safe."""

    def __init__(
        self,
        access: Access,
        renewed: Callable[[], Access],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.access = access
        self.clock = clock
        self.sleep = sleep
        self._renewed = renewed
        self._pool = _pool(access)
        self._answered = False

    def call(
        self,
        asked: Asked,
        method: str,
        path: str,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        content: str = JSON,
        again: bool = True,
        patience: float = PATIENCE,
    ) -> dict[str, Any]:
        """The answer, parsed as JSON. `again`: the call may be repeated if it is unknown whether it
        took effect. Raises the exceptions of `failures`, and UnavailableError."""
        while True:
            begun = False
            try:
                with self.open(
                    asked, method, path, query, body, content, again, patience=patience
                ) as response:
                    begun = True
                    text = _text(response)
                break
            except AwayError:
                if not begun or not again:
                    raise
                again = False  # once more
        try:
            return json.loads(text)
        except ValueError:
            raise UnavailableError(
                f"what answers at {self.access.server} is no Kubernetes API", CHECK
            ) from None

    @contextlib.contextmanager
    def open(
        self,
        asked: Asked,
        method: str,
        path: str,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        content: str = JSON,
        again: bool = True,
        silence: float = READ,
        patience: float = PATIENCE,
    ) -> Iterator[Any]:
        """The answer (of urllib3), once its headers are received. `silence`: a timeout in seconds.
        A connection that breaks later raises AwayError."""
        import urllib3

        response = self._begin(asked, method, path, query, body, content, again, silence, patience)
        try:
            yield response
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if isinstance(error, UnavailableError):
                raise
            raise self._broken(error) from error
        finally:
            response.close()  # Read to the end, its connection is back in the pool already.

    def renew(self) -> None:
        """Reads the configuration again."""
        self.access = self._renewed()
        self._pool = _pool(self.access)

    def refuse(self, code: int, text: str, asked: Asked) -> Exception:
        """The exception for an answer with HTTP status `code`."""
        return failure(code, text, asked)

    def _begin(
        self,
        asked: Asked,
        method: str,
        path: str,
        query: Query,
        body: Mapping[str, Any] | None,
        content: str,
        again: bool,
        silence: float,
        patience: float,
    ) -> Any:
        deadline = self.clock() + patience
        renewed = False
        for attempt in itertools.count():
            pause = min(SLOWEST, 0.1 * 2 ** min(attempt, 10)) * random.uniform(0.7, 1)
            try:
                response = self._send(method, path, query, body, content, silence)
            except AwayError as error:
                known = again or not error.sent
                if not self._answered or not known or self.clock() + pause > deadline:
                    raise
                self.sleep(pause)
                continue
            self._answered = True
            if 200 <= response.status < 300:
                return response
            text = _text(response)
            if response.status == 401 and not renewed:
                renewed = True  # a token may have been replaced in its file, or by its plug-in
                self.renew()
                continue
            later = response.status in LATER or (again and response.status in FAILED)
            pause = max(pause, _retry_after(response))
            if not later or self.clock() + pause > deadline:
                raise self.refuse(response.status, text, asked)
            self.sleep(pause)

    def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: Mapping[str, Any] | None,
        content: str,
        silence: float,
    ) -> Any:
        import urllib3

        headers = {"Accept": "application/json, */*", "User-Agent": "tfapp"}
        authorization = self.access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            headers["Content-Type"] = content
            data = json.dumps(body).encode()
        address = f"{self.access.server}{path}"
        if query:
            address += "?" + urllib.parse.urlencode(query)
        try:
            return self._pool.request(
                method,
                address,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT, read=silence),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> UnavailableError:
        """The exception for a failed connection."""
        import urllib3

        where = f"the Kubernetes API at {self.access.server} ({self.access.source})"
        cause = _of_type(error, ssl.SSLCertVerificationError)
        if cause is not None:
            return UnavailableError(
                f"{where} shows a certificate that is not to be trusted: {cause.verify_message}",
                "certificate-authority in the kubeconfig file must be that of this cluster.",
            )
        refused = _of_type(error, ssl.SSLError)
        if refused is not None and not isinstance(
            refused, (ssl.SSLEOFError, ssl.SSLZeroReturnError)
        ):
            reason = refused.reason or one_line(refused)
            return UnavailableError(f"{where} cannot be talked to by TLS: {reason}", CHECK)
        unsent = (
            urllib3.exceptions.NewConnectionError,
            urllib3.exceptions.ConnectTimeoutError,
            ValueError,
        )
        message = f"{where} does not answer: {_reason(error)}"
        return AwayError(message, CHECK, sent=not isinstance(error, unsent))


def _pool(access: Access) -> Any:
    from kubernetes.client.rest import RESTClientObject

    return RESTClientObject(access.configuration).pool_manager


def _text(response: Any) -> str:
    return response.read().decode("utf-8", "replace")


def _retry_after(response: Any) -> float:
    """The header Retry-After in seconds; 0 if there is none."""
    try:
        return float(response.headers.get("Retry-After", 0))
    except ValueError:
        return 0.0


def _of_type(error: BaseException, kind: type) -> Any:
    """An exception of type `kind` among the causes of `error`, or None."""
    pending: list[Any] = [error]
    seen: set[int] = set()
    while pending:
        found = pending.pop()
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        if isinstance(found, kind):
            return found
        seen.add(id(found))
        pending += [*found.args, getattr(found, "reason", None), found.__cause__, found.__context__]
    return None


def _reason(error: Exception) -> str:
    """The reason of an exception, in the words of the operating system if possible."""
    import urllib3

    found = _of_type(error, OSError)
    if found is not None and found.strerror:
        return found.strerror
    if _of_type(error, urllib3.exceptions.TimeoutError) is not None:
        return "it says nothing"
    return one_line(error.args[-1] if error.args else error)
