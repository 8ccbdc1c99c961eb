"""Calls to the API server with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server has refused. `code` is HTTP's."""

    def __init__(self, code: int, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """The API server and the user whom a kubeconfig file of this cluster names."""

    def __init__(self, kubeconfig: Path):
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        # `ssl` reads a client's pair from a file only.
        with tempfile.NamedTemporaryFile() as pair:  # mode 0600
            for key in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[key]))
            pair.flush()
            self._context.load_cert_chain(pair.name)

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        """The JSON answer. ApiError when refused; OSError or http.client.HTTPException when there
        is no answer. `kind` is the body's content type; bytes are sent as they are."""
        return json.loads(self.text(method, path, body, kind))

    def text(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> str:
        """As `call`, the answer as it is: /readyz, a pod's log."""
        with self._answer(method, path, body, kind, limit=15) as answer:
            return answer.read().decode(errors="replace")

    def watch(self, path: str, limit: int = 60) -> Iterator[tuple[str, dict[str, Any]]]:
        """Events of a collection, each as (type, object), until `limit` seconds have passed."""
        query = urllib.parse.urlencode({"watch": 1, "timeoutSeconds": limit})
        path = f"{path}{'&' if '?' in path else '?'}{query}"
        with self._answer("GET", path, None, "", limit=limit + 15) as answer:
            for line in answer:
                event = json.loads(line)
                yield event["type"], event["object"]

    def ready(self) -> bool:
        """Whether it answers and says that it is ready."""
        with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
            return self.text("GET", "/readyz") == "ok"
        return False

    @contextlib.contextmanager
    def _answer(
        self, method: str, path: str, body: object, kind: str, limit: float
    ) -> Iterator[http.client.HTTPResponse]:
        url = urllib.parse.urlsplit(self.server)
        connection = http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=limit, context=self._context
        )
        headers: Mapping[str, str] = {} if body is None else {"Content-Type": kind}
        try:
            plain = body is None or isinstance(body, bytes)
            connection.request(method, path, body if plain else json.dumps(body), headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(answer.status, _message(answer.read()))
            yield answer
        finally:
            connection.close()


def _message(answer: bytes) -> str:
    try:
        return json.loads(answer)["message"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()
