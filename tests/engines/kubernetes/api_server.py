"""An API server that keeps objects, lists and watches them; without nodes and controllers: a test
says what becomes of pods. By itself it is a Transport; `running` is the same over HTTP or HTTPS."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.tls import make_certificate
from tfapp.engines.kubernetes.pod import api
from tfapp.engines.kubernetes.pod.failures import KINDS

KIND_OF = {kind.resource: kind.kind for kind in KINDS.values()}


class Answer(NamedTuple):
    """`body`: JSON, or text as it is, or chunks of it. `code`: 0: there is no answer. `broken`: the
    connection ends in the middle of the answer."""

    body: Any = {}
    code: int = 200
    headers: Mapping[str, str] = {}
    broken: bool = False

    def chunks(self) -> Iterator[bytes]:
        if isinstance(self.body, Iterator):
            return self.body
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return iter([text.encode()] if text else [])


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def key(self) -> str:
        """ "Pod/NAME", or "Pod" for all."""
        _, resource, *name = self.path.partition("/namespaces/")[2].split("/")
        return "/".join([KIND_OF[resource], *name])


class ApiServer:
    """`answers`: those still to be given, in this order, then 404: it keeps nothing. `away`: it
    answers 503 and ends all watches. `refusals`: the answers to the next POSTs. `refuses`: kinds
    whose making raises this, once it is done. `unanswered`: so many of the next POSTs are done, and
    their answer is lost. `forbidden`: so many of the next calls are. `oldest`: watches from before
    are too old. `account`: the folder of a pod's token, if it wants one."""

    source, server, answered, silence = "a test", "http://memory", True, 1.0  # as a Transport

    def __init__(self, namespace: str = "team", answers: list[Answer] | None = None):
        self.namespace = namespace
        self.answers = answers
        self.refusals: list[Answer] = []
        self.refuses: dict[str, BaseException] = {}
        self.unanswered = self.forbidden = self.oldest = 0
        self.away = False
        self.requests: list[Request] = []
        self.objects: dict[str, dict[str, Any]] = {}  # "Pod/NAME"
        self.changed = threading.Condition()
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 1
        self.account: Path | None = None

    def send(self, call: api.ApiCall, silence: float) -> api.Answer:
        body = call.body and json.loads(json.dumps(call.body))
        request = Request(call.method, call.path, dict(call.query), call.headers, body)
        answer = self.answer(request)
        return api.Answer(answer.code, answer.headers, answer.chunks(), lambda: None)

    def renew(self) -> None:
        """It has no login."""

    @contextlib.contextmanager
    def running(self, account: Path | None = None) -> Iterator[ApiServer]:
        """Over HTTP; with `account` over HTTPS, and the folder gets what a pod needs."""
        http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"of": self}))
        http.daemon_threads = True
        http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.address = f"http://127.0.0.1:{http.server_port}"
        port = str(http.server_port)
        self.environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        if account is not None:
            self.account = account
            tls = make_certificate(account / "ca.crt")
            (account / "namespace").write_text(f"{self.namespace}\n")
            self.token("first")
            # Each handshake in the thread of its connection.
            http.socket = tls.wrap_socket(
                http.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.go(True)
            http.shutdown()
            http.server_close()
            thread.join()

    def token(self, text: str) -> None:
        """The one that is valid from now on."""
        assert self.account is not None
        self.valid = text
        (self.account / "token").write_text(text)

    def go(self, away: bool) -> None:
        """Away, or back."""
        with self.changed:
            self.away = away
            self.changed.notify_all()

    def names(self) -> list[str]:
        """All objects, "Job/tfapp-train-1"."""
        return sorted(self.objects)

    def put(self, key: str, item: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
        """Writes an object, which watches tell."""
        with self.changed:
            self.version += 1
            item = copy.deepcopy(item)
            item["metadata"].setdefault("uid", f"uid-{self.version}")
            item["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = item
            self.history.append((self.version, kind, key, item))
            self.changed.notify_all()
            return item

    def change(self, name: str, phase: str = "", node: str = "", **more: Any) -> None:
        """What a scheduler or a kubelet says of a pod."""
        item = copy.deepcopy(self.objects[f"Pod/{name}"])
        if node:
            item["spec"]["nodeName"] = node
        item.setdefault("status", {}).update(**({"phase": phase} if phase else {}), **more)
        self.put(f"Pod/{name}", item)

    def drop(self, key: str, told: bool = True) -> None:
        """Deletes an object and what it owns. Without `told` it is gone from the history that
        watches have."""
        with self.changed:
            item = self.objects.pop(key)
            self.version += 1
            if told:
                self.history.append((self.version, "DELETED", key, item))
            else:
                self.oldest = self.version
            self.changed.notify_all()
            uid = item["metadata"]["uid"]
            for other, owned in tuple(self.objects.items()):
                owners = owned["metadata"].get("ownerReferences", ())
                if other in self.objects and any(owner["uid"] == uid for owner in owners):
                    self.drop(other, told)

    def await_object(self, key: str) -> dict[str, Any]:
        """The object, once it is there."""
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.objects, 60), self.requests
            return self.objects[key]

    def await_request(self, method: str, key: str) -> Any:
        """The body of the first such request, once it has been carried out."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: [r for r in self.requests if (r.method, r.key) == (method, key)], 60
            )
            assert found, self.requests
            return found[0].body

    # ---- answers ---------------------------------------------------------------------------------
    def answer(self, request: Request) -> Answer:
        with self.changed:
            if self.answers is not None:
                self.requests.append(request)
                return self.answers.pop(0) if self.answers else Answer({}, 404)
            if self.away:
                return _refused(503, "ServiceUnavailable", "it starts")
            if self.account and request.headers["Authorization"] != f"Bearer {self.valid}":
                return _refused(401, "Unauthorized", "Unauthorized")
            if self.forbidden:
                self.forbidden -= 1
                return _refused(403, "Forbidden", "no")
            if request.path == f"/api/v1/namespaces/{self.namespace}":
                return Answer({"metadata": {"name": self.namespace}})
            assert f"/namespaces/{self.namespace}/" in request.path, request
            found = self._carried_out(request)
            self.requests.append(request)
            self.changed.notify_all()
            return found

    def _carried_out(self, request: Request) -> Answer:
        key = request.key
        if request.method == "POST":
            return self._made(key, request.body)
        if "watch" in request.query:
            version = int(request.query["resourceVersion"])
            if version < self.oldest:
                return _refused(410, "Expired", "too old resource version")
            return Answer(self._changes(key, version, _labels(request)))
        if "/" not in key:
            wanted = _labels(request)
            found = [i for k, i in self.objects.items() if _is(key, wanted, k, i)]
            version = {"resourceVersion": str(self.version)}
            return Answer({"metadata": version, "items": copy.deepcopy(found)})
        item = self.objects.get(key)
        if item is None:
            return _refused(404, "NotFound", f"{key} not found", name=key.partition("/")[2])
        if request.method == "PATCH":
            return self._patched(key, item, request)
        if request.method == "DELETE":
            wanted = request.body.get("preconditions", {})
            if any(item["metadata"].get(name) != value for name, value in wanted.items()):
                return _refused(409, "Conflict", "the precondition does not hold")
            self.drop(key)
        return Answer(copy.deepcopy(item))

    def _made(self, kind: str, body: dict[str, Any]) -> Answer:
        if self.refusals:
            return self.refusals.pop(0)
        key = f"{kind}/{body['metadata']['name']}"
        if key in self.objects:
            return _refused(409, "AlreadyExists", f"{key} already exists")
        begun = {"status": {"phase": "Pending"}} if kind == "Pod" else {}
        made = self.put(key, {**body, **begun}, "ADDED")
        if kind in self.refuses:
            raise self.refuses[kind]
        if self.unanswered:
            self.unanswered -= 1
            return Answer(code=0)
        return Answer(copy.deepcopy(made), 201)

    def _patched(self, key: str, item: dict[str, Any], request: Request) -> Answer:
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        item = copy.deepcopy(item)
        version = request.body.get("metadata", {}).get("resourceVersion")
        if version not in (None, item["metadata"]["resourceVersion"]):
            return _refused(409, "Conflict", "it was changed meanwhile")
        for part, values in request.body.items():
            merged = {**item.get(part, {}), **values}
            item[part] = {name: value for name, value in merged.items() if value is not None}
        return Answer(copy.deepcopy(self.put(key, item)))

    def _changes(self, kind: str, version: int, wanted: Mapping[str, str]) -> Iterator[bytes]:
        while not self.away:
            with self.changed:
                news = [
                    (at, change, item)
                    for at, change, key, item in self.history
                    if at > version and (change == "BOOKMARK" or _is(kind, wanted, key, item))
                ]
                if not news and version < self.oldest:
                    yield _event("ERROR", {"code": 410, "message": "too old"})
                    return
                if not news:
                    self.changed.wait(10)
            for at, change, item in news:
                version = at
                yield _event(change, item)


class _Handler(BaseHTTPRequestHandler):
    of: ApiServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query, body = dict(parse_qsl(parts.query)), json.loads(text) if text else None
        headers = dict(self.headers)
        answer = self.of.answer(Request(self.command, parts.path, query, headers, body))
        self.close_connection = answer.broken or not answer.code
        if not answer.code:
            return
        self.send_response(answer.code)
        for name, value in {**answer.headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for data in answer.chunks():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if not answer.broken:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def status(reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A refusal, as an API server words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "details": details,
    }


def _refused(code: int, reason: str, message: str, **details: Any) -> Answer:
    return Answer(status(reason, message, **details), code)


def _labels(request: Request) -> dict[str, str]:
    selected = request.query.get("labelSelector", "").split(",")
    return dict(pair.split("=") for pair in selected if pair)


def _is(kind: str, labels: Mapping[str, str], key: str, item: dict[str, Any]) -> bool:
    of_it = item["metadata"].get("labels", {})
    return key.startswith(f"{kind}/") and labels.items() <= of_it.items()


def _event(change: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": change, "object": item}).encode() + b"\n"
