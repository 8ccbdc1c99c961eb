"""Calls to the API server from inside a pod, with the token of its service account, which is
rotated."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from tfapp.errors import TfappError, UnavailableError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CALL_LIMIT = 15.0  # seconds for one call
WATCH_SECONDS = 60  # for which the server keeps one watch open
SILENCE_LIMIT = 15.0  # seconds that it may take longer
FORBIDDEN_LIMIT = 10.0  # seconds in which the server may forbid what it should not
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between two attempts

_MERGE = "application/merge-patch+json"
# Answers of a server that is starting, ending or busy; 401 of one that cannot look at a token yet.
_TRANSIENT = (401, 408, 429, 500, 502, 503, 504)
_GONE = 410


class ApiError(TfappError):
    """The API server refuses. `status`: the HTTP status. `reason`: such as "AlreadyExists"."""

    def __init__(self, status: int, reason: str, message: str):
        super().__init__(message)
        self.status = status
        self.reason = reason


class AwayError(UnavailableError):
    """The API server does not answer."""


class Follower(Protocol):
    """Receives the events of `Api.follow`, in its thread."""

    def listed(self, items: list[dict[str, Any]]) -> None:
        """All existing objects."""

    def changed(self, kind: str, item: dict[str, Any]) -> None:
        """A change: "ADDED", "MODIFIED" or "DELETED"."""

    def away(self, error: str) -> None:
        """The API server cannot be watched at the moment."""


class Api:
    """The API server of the pod's cluster. Thread-safe. `environ`: that of the pod. `account`: the
    folder with its token."""

    def __init__(self, environ: Mapping[str, str], account: Path = ACCOUNT):
        try:
            self._address = (
                environ["KUBERNETES_SERVICE_HOST"],
                int(environ["KUBERNETES_SERVICE_PORT"]),
            )
            self.namespace = (account / "namespace").read_text().strip()
        except (KeyError, ValueError, OSError) as error:
            raise UnavailableError(
                f"this pod cannot reach the API server: {error}",
                "Its service account has to be mounted (automountServiceAccountToken).",
            ) from error
        self._account = account
        self._ended = threading.Event()
        self._watching: http.client.HTTPSConnection | None = None

    def path(self, kind: str, name: str = "", group: str = "/api/v1") -> str:
        """The path of a namespaced collection ("pods"), or of an object in it."""
        path = f"{group}/namespaces/{self.namespace}/{kind}"
        return f"{path}/{urllib.parse.quote(name)}" if name else path

    def call(
        self, method: str, path: str, body: object = None, patience: float = 0.0
    ) -> dict[str, Any]:
        """The answer to a call; a PATCH is a merge patch. Retried for `patience` seconds while the
        server is away. ApiError, AwayError."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                return self._call(method, path, body)
            except (AwayError, ApiError) as error:
                limit = patience
                if isinstance(error, ApiError):
                    # A server that starts forbids everything at first.
                    limit = min(patience, FORBIDDEN_LIMIT) if error.status == 403 else 0.0
                if time.monotonic() + pause > begun + limit or self._ended.wait(pause):
                    raise
                pause = min(2 * pause, LONGEST_PAUSE)

    def follow(self, path: str, query: Mapping[str, str], follower: Follower) -> None:
        """Watches the objects of a collection that `query` selects, until `close`."""
        version, pause = "", FIRST_PAUSE
        while not self._ended.is_set():
            try:
                if not version:
                    found = self.call("GET", f"{path}?{urllib.parse.urlencode(query)}")
                    version = found["metadata"]["resourceVersion"]
                    follower.listed(found["items"])
                for event in self._watch(path, query, version):
                    pause = FIRST_PAUSE
                    if event["type"] == "ERROR":
                        code, words = event["object"].get("code"), event["object"].get("message")
                        raise ApiError(code or 500, "", str(words))
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        follower.changed(event["type"], event["object"])
            except ApiError as error:
                version = ""
                if error.status != _GONE:  # too old: what there is now is listed at once
                    follower.away(str(error))
                    self._ended.wait(pause)
            except (AwayError, OSError, ValueError, http.client.HTTPException) as error:
                # What happened meanwhile comes with the next watch.
                follower.away(str(error))
                self._ended.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Ends `follow`, and calls that wait for the server."""
        self._ended.set()
        watching = self._watching
        if watching is not None and watching.sock is not None:
            with contextlib.suppress(OSError):
                watching.sock.shutdown(socket.SHUT_RDWR)

    # -- inside --
    def _call(self, method: str, path: str, body: object) -> dict[str, Any]:
        try:
            connection = self._connect(CALL_LIMIT)
            try:
                answer = self._send(connection, method, path, body)
                data = answer.read()
            finally:
                connection.close()
            found = json.loads(data) if answer.status < 400 else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AwayError(f"the API server does not answer: {error}") from error
        if found is None:
            raise _refusal(answer.status, data)
        return dict(found)

    def _watch(self, path: str, query: Mapping[str, str], version: str) -> Iterator[dict[str, Any]]:
        asked = {
            **query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "resourceVersion": version,
        }
        connection = self._connect(WATCH_SECONDS + SILENCE_LIMIT)
        self._watching = connection
        try:
            url = f"{path}?{urllib.parse.urlencode(asked)}"
            answer = self._send(connection, "GET", url, None)
            if answer.status >= 400:
                raise _refusal(answer.status, answer.read())
            if self._ended.is_set():
                return
            for line in answer:
                yield json.loads(line)
        finally:
            self._watching = None
            connection.close()

    def _connect(self, limit: float) -> http.client.HTTPSConnection:
        # Anew for each connection: the authority may change too.
        tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        return http.client.HTTPSConnection(*self._address, timeout=limit, context=tls)

    def _send(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: object
    ) -> http.client.HTTPResponse:
        token = (self._account / "token").read_text().strip()
        kind = _MERGE if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        headers["Accept"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        return connection.getresponse()


def _refusal(status: int, data: bytes) -> TfappError:
    """An ApiError; or an AwayError if another attempt may succeed."""
    try:
        told = json.loads(data)
        reason, message = str(told.get("reason", "")), str(told.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", data[:1000].decode(errors="replace").strip()
    if status in _TRANSIENT:
        return AwayError(f"the API server answers {status}: {message}")
    return ApiError(status, reason, message)


def thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Starts a daemon thread."""
    made = threading.Thread(target=target, name=name, daemon=True)
    made.start()
    return made
