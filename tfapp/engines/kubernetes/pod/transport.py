"""The way from a pod to its API server, with the token of its service account, which is rotated."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp.engines.kubernetes.pod.api import CHUNK, UNAUTHORIZED, Answer, Api, ApiCall
from tfapp.engines.kubernetes.pod.failures import LATER, Asked, AwayError, failure, read_status
from tfapp.errors import TfappError, UnavailableError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_BROKEN = (OSError, http.client.HTTPException, ValueError)


class PodApi(Api):
    """The API server of the pod's cluster. `environ`: that of the pod. `account`: the folder with
    its token. A call is made once, unless it says for how long.

    The messages of its errors are the server's own, for the sentences of the master."""

    patience = 0.0
    refusals_pass = True

    def __init__(self, environ: Mapping[str, str], account: Path = ACCOUNT):
        try:
            address = (environ["KUBERNETES_SERVICE_HOST"], int(environ["KUBERNETES_SERVICE_PORT"]))
            namespace = (account / "namespace").read_text().strip()
        except (KeyError, ValueError, OSError) as error:
            raise UnavailableError(
                f"this pod cannot reach the API server: {error}",
                "Its service account has to be mounted (automountServiceAccountToken).",
            ) from error
        super().__init__(PodTransport(*address, account), namespace)

    def refuse(self, code: int, text: str, asked: Asked) -> TfappError:
        """See Api.refuse. 401 is an AwayError: a server that starts cannot look at a token yet."""
        refused = failure(code, text, asked)
        words = read_status(text).get("message") or text[:1000].strip()
        if code == UNAUTHORIZED or isinstance(refused, AwayError):
            return AwayError(f"the API server answers {code}: {words}", sent=code not in LATER)
        return type(refused)(words)


class PodTransport:
    """See Transport. `account`: the folder of the service account."""

    source = "the service account of this pod"
    answered = True  # else there would be no pod
    silence = 15.0

    def __init__(self, host: str, port: int, account: Path):
        self.server = f"https://{host}:{port}"
        self._address = host, port
        self._account = account

    def send(self, call: ApiCall, silence: float) -> Answer:
        try:
            # Anew for each connection: the authority may change too.
            tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
            token = (self._account / "token").read_text().strip()
        except _BROKEN as error:
            raise _away(error) from error
        connection = http.client.HTTPSConnection(*self._address, timeout=silence, context=tls)
        headers = {**call.headers, "Authorization": f"Bearer {token}"}
        try:
            connection.request(call.method, call.target, call.data, headers)
            response = connection.getresponse()
        except _BROKEN as error:
            connection.close()
            raise _away(error) from error
        chunks = _chunks(connection, response)
        return Answer(response.status, dict(response.headers), chunks, connection.close)

    def renew(self) -> None:
        """See Transport.renew. The token is read for each call."""


def _chunks(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse
) -> Iterator[bytes]:
    try:
        while chunk := response.read1(CHUNK):
            yield chunk
    except _BROKEN as error:
        raise _away(error) from error
    finally:
        connection.close()


def _away(error: Exception) -> AwayError:
    return AwayError(f"the API server does not answer: {error}")
