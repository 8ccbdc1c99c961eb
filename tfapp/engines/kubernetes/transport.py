"""The way of a command to the API server: one HTTP connection pool, and the login of a kubeconfig
file or of a pod.

Bodies are plain JSON on the pool of the library's REST client: its typed methods validate bodies
against the models of their own version, and their signatures differ between versions.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from tfapp.engines.kubernetes.configuration import Access, one_line
from tfapp.engines.kubernetes.pod.api import CHECK, CHUNK, Answer, ApiCall
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.errors import UnavailableError, causes

CONNECT = 10.0  # seconds
BEFORE = "It has answered this command before. The application goes on; call it again later."


class PoolTransport:
    """See Transport. `renewed`: reads the configuration again."""

    silence = 60.0

    def __init__(self, access: Access, renewed: Callable[[], Access]):
        self.answered = False
        self._renewed = renewed
        self._use(access)

    def send(self, call: ApiCall, silence: float) -> Answer:
        import urllib3

        headers = call.headers
        authorization = self.access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        try:
            response = self._pool.request(
                call.method,
                f"{self.server}{call.target}",
                body=call.data,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT, read=silence),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._broken(error) from error
        # Read to the end, its connection is back in the pool before `close`.
        return Answer(
            response.status,
            response.headers,
            self._chunks(response),
            response.close,
            functools.partial(_hang_up, response),
        )

    def renew(self) -> None:
        self._use(self._renewed())

    def rest(self) -> None:
        """Closes the connections that no call uses."""
        self._pool.clear()

    def _use(self, access: Access) -> None:
        from kubernetes.client.rest import RESTClientObject

        self.access, self.server, self.source = access, access.server, access.source
        self._pool: Any = RESTClientObject(access.configuration).pool_manager

    def _chunks(self, response: Any) -> Iterator[bytes]:
        import urllib3

        try:
            yield from response.stream(CHUNK)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> UnavailableError:
        import urllib3

        where = f"the Kubernetes API at {self.server} ({self.source})"
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
        hint = BEFORE if self.answered else CHECK
        return AwayError(message, hint, sent=not isinstance(error, unsent))


def _hang_up(response: Any) -> None:
    below = getattr(response.connection, "sock", None)  # None once it is read to its end
    if below is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(below, socket.SHUT_RDWR)  # below TLS, which others read


def _of_type(error: BaseException, kind: type) -> Any:
    """An exception of type `kind` among the causes of `error`, or None."""
    return next((found for found in causes(error) if isinstance(found, kind)), None)


def _reason(error: Exception) -> str:
    """The reason of an exception, in the words of the operating system if possible."""
    import urllib3

    found = _of_type(error, OSError)
    if found is not None and found.strerror:
        return found.strerror
    if _of_type(error, urllib3.exceptions.TimeoutError) is not None:
        return "it says nothing"
    return one_line(error.args[-1] if error.args else error)
