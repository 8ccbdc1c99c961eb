"""An API server that keeps objects, lists and watches them, over HTTPS; without nodes: a test says
what becomes of pods."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.engines.kubernetes.api_server import status
from tests.tls import make_certificate

PREFIX = "/api/v1/namespaces/test/"


class PodServer:
    """`account`: the folder of the pod's token. `away`: it answers 503 and ends all watches.
    `refusals`: the answers to the next POSTs, (code, body). `unanswered`: so many of the next POSTs
    are carried out, and their answer is lost. `forbidden`: so many of the next calls are. `oldest`:
    watches from before are too old."""

    def __init__(self, folder: Path):
        self.account = folder
        tls = make_certificate(folder / "ca.crt")
        (folder / "namespace").write_text("test\n")
        self.token("first")
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        self.unanswered = 0
        self.away = False
        self.forbidden = 0
        self.oldest = 0
        self.requests: list[tuple[str, str, Any]] = []  # method, path below PREFIX, body
        self.objects: dict[str, dict[str, Any]] = {}  # "pods/NAME"
        self.changed = threading.Condition()
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 1
        handler = type("Handler", (_Handler,), {"of": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        # Each handshake in the thread of its connection.
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_port),
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[PodServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.go(True)
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def token(self, text: str) -> None:
        """The one that is valid from now on."""
        self.valid = text
        (self.account / "token").write_text(text)

    def go(self, away: bool) -> None:
        """Away, or back."""
        with self.changed:
            self.away = away
            self.changed.notify_all()

    def put(self, key: str, item: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
        """Writes an object, which watches tell."""
        with self.changed:
            self.version += 1
            item = copy.deepcopy(item)
            item["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = item
            self.history.append((self.version, kind, key, item))
            self.changed.notify_all()
            return item

    def change(self, name: str, phase: str = "", node: str = "", **more: Any) -> None:
        """What a scheduler or a kubelet says of a pod."""
        item = copy.deepcopy(self.objects[f"pods/{name}"])
        if node:
            item["spec"]["nodeName"] = node
        item.setdefault("status", {}).update(**({"phase": phase} if phase else {}), **more)
        self.put(f"pods/{name}", item)

    def drop(self, key: str, told: bool = True) -> None:
        """Deletes an object. Without `told` it is gone from the history that watches have."""
        with self.changed:
            item = self.objects.pop(key)
            self.version += 1
            if told:
                self.history.append((self.version, "DELETED", key, item))
            else:
                self.oldest = self.version
            self.changed.notify_all()

    def await_object(self, key: str) -> dict[str, Any]:
        """The object, once it is there."""
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.objects, 60), self.requests
            return self.objects[key]

    def await_request(self, method: str, key: str) -> Any:
        """The body of the first such request, once it has come."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: [r for r in self.requests if r[:2] == (method, key)], 60
            )
            assert found, self.requests
            return found[0][2]


class _Handler(BaseHTTPRequestHandler):
    of: PodServer

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        body = json.loads(text) if text else None
        parts = urlsplit(self.path)
        assert parts.path.startswith(PREFIX), self.path
        key, query = parts.path[len(PREFIX) :], parse_qs(parts.query)
        server = self.of
        if server.away:
            return self._answer(503, status("ServiceUnavailable", "it starts"))
        if self.headers["Authorization"] != f"Bearer {server.valid}":
            return self._answer(401, status("Unauthorized", "Unauthorized"))
        if server.forbidden:
            server.forbidden -= 1
            return self._answer(403, status("Forbidden", "no"))
        if "watch" in query:
            return self._watch(key, int(query["resourceVersion"][0]))
        answer = getattr(self, f"_{self.command.lower()}")(key, body)
        with server.changed:
            server.requests.append((self.command, key, body))
            server.changed.notify_all()
        if answer is not None:
            self._answer(*answer)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _get(self, key: str, body: Any) -> tuple[int, dict[str, Any]]:
        if "/" in key:
            found = self.of.objects.get(key)
            return (200, found) if found else (404, status("NotFound", f"{key} not found"))
        with self.of.changed:
            items = [item for k, item in self.of.objects.items() if k.startswith(f"{key}/")]
            return 200, {"metadata": {"resourceVersion": str(self.of.version)}, "items": items}

    def _post(self, key: str, body: Any) -> tuple[int, dict[str, Any]] | None:
        if self.of.refusals:
            return self.of.refusals.pop(0)
        name = f"{key}/{body['metadata']['name']}"
        if name in self.of.objects:
            return 409, status("AlreadyExists", f"{name} already exists")
        body["metadata"]["uid"] = f"uid-{self.of.version}"
        made = self.of.put(name, {**body, "status": {"phase": "Pending"}}, "ADDED")
        if self.of.unanswered:
            self.of.unanswered -= 1
            return None
        return 201, made

    def _patch(self, key: str, body: Any) -> tuple[int, dict[str, Any]]:
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        if key not in self.of.objects:
            return 404, status("NotFound", f"{key} not found")
        item = copy.deepcopy(self.of.objects[key])
        for part, values in body.items():
            merged = {**item.get(part, {}), **values}
            item[part] = {name: value for name, value in merged.items() if value is not None}
        return 200, self.of.put(key, item)

    def _delete(self, key: str, body: Any) -> tuple[int, dict[str, Any]]:
        item = self.of.objects.get(key)
        if item is None:
            return 404, status("NotFound", f"{key} not found")
        wanted = (body or {}).get("preconditions", {})
        if any(item["metadata"].get(name) != value for name, value in wanted.items()):
            return 409, status("Conflict", "the precondition does not hold")
        self.of.drop(key)
        return 200, item

    def _watch(self, kind: str, version: int) -> None:
        server = self.of
        if version < server.oldest:
            return self._answer(410, status("Expired", "too old resource version"))
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        while not server.away:
            with server.changed:
                news = [e for e in server.history if e[0] > version and e[2].startswith(f"{kind}/")]
                if not news and version < server.oldest:
                    self._event("ERROR", {"code": 410, "message": "too old"})
                    return
                if not news:
                    server.changed.wait(10)
            for _, change, _, item in news:
                self._event(change, item)
            version = news[-1][0] if news else version

    def _event(self, kind: str, item: dict[str, Any]) -> None:
        self.wfile.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
        self.wfile.flush()

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
