"""The client of the API server, for commands and for the master's pod. Objects are plain
dictionaries, as in manifests.

Methods raise the exceptions of `failures`: AwayError if the API server does not answer,
ForbiddenError with the missing RBAC rule, NotFoundError for a missing namespace, ExistsError,
ConflictError and RefusedObjectError; and UnavailableError if a login or a certificate is not
accepted. A server that has answered before is asked again for `patience` seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.failures import KINDS, Asked, AwayError, GoneError, failure
from tfapp.errors import ExistsError, ForbiddenError, NotFoundError, TfappError
from tfapp.frozen import frozen

JSON = "application/json"
MERGE = "application/merge-patch+json"
METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}  # of verbs; else GET

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
FORBIDDEN_LIMIT = 10.0  # seconds in which a server that starts may forbid what it should not
PAGE = 500  # objects of one answer to a list
WATCH = 30  # seconds after which a watch is asked for anew
SILENCE = 45.0  # seconds without a word after which a watch is broken
CHUNK = 1 << 16
UNAUTHORIZED = 401
CHECK = "Is it the right cluster, and can this machine reach it?"

Object = dict[str, Any]
Objects = list[Object]
Lines = list[bytes]
Query = Sequence[tuple[str, str]]
T = TypeVar("T")


def _nobody(told: object) -> None:
    """Ignores what it is told."""


@frozen
class ApiCall:
    """A call of the API: what it is about, and the request. `again`: it may be repeated if it is
    unknown whether it took effect."""

    asked: Asked
    path: str
    query: Query = ()
    body: Mapping[str, Any] | None = None  # of a PATCH: a merge patch
    again: bool = True

    @property
    def method(self) -> str:
        return METHODS.get(self.asked.verb, "GET")

    @property
    def target(self) -> str:
        """The path with the query."""
        return f"{self.path}?{urllib.parse.urlencode(self.query)}" if self.query else self.path

    @property
    def headers(self) -> dict[str, str]:
        """All but the login."""
        headers = {"Accept": "application/json, */*", "User-Agent": "tfapp"}
        if self.body is not None:
            headers["Content-Type"] = MERGE if self.method == "PATCH" else JSON
        return headers

    @property
    def data(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()


class Answer(NamedTuple):
    """An answer, once its headers are received. `chunks`: its body; AwayError if the connection
    breaks. `hang_up`: breaks it off, also where another thread waits for more."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]
    close: Callable[[], object]
    hang_up: Callable[[], object] = lambda: None

    def text(self) -> str:
        try:
            return b"".join(self.chunks).decode("utf-8", "replace")
        finally:
            self.close()

    def lines(self) -> Iterator[Lines]:
        """Whole lines with their line breaks, in lists, as they arrive; the last one may have no
        line break."""
        rest = b""
        for chunk in self.chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield [line + b"\n" for line in lines]
        if rest:
            yield [rest]

    @property
    def retry_after(self) -> float:
        """The header Retry-After in seconds; 0 if there is none."""
        try:
            return float(self.headers.get("Retry-After", 0))
        except ValueError:
            return 0.0


class Transport(Protocol):
    """A way to an API server. Thread-safe. `server`: its address, "https://10.0.0.1:6443".
    `source`: the cluster and the login in words, "context 'a' of /home/b/.kube/config". `answered`:
    whether the server is known to be one. `silence`: seconds without a word after which a call is
    given up."""

    server: str
    source: str
    answered: bool
    silence: float

    def send(self, call: ApiCall, silence: float) -> Answer:
        """The answer, whatever its status. AwayError, UnavailableError."""

    def renew(self) -> None:
        """Reads the login again: a token may have been replaced in its file, or by its plug-in."""


class Api:
    """An API server and a namespace. Thread-safe."""

    patience = 30.0  # seconds in which a call is made again, where it does not say so itself
    refusals_pass = False  # whether a server that starts may refuse what it should not
    writing: Query = ()  # of each call that writes an object

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.transport = transport
        self.namespace = namespace
        self._clock = clock
        self._sleep = sleep
        self._closed = False

    @property
    def source(self) -> str:
        return self.transport.source

    # ---- objects ---------------------------------------------------------------------------------
    def get(self, kind: str, name: str, patience: float | None = None) -> Object | None:
        """The object; None if it does not exist."""
        try:
            return self.require(kind, name, patience)
        except NotFoundError:
            return None

    def require(self, kind: str, name: str, patience: float | None = None) -> Object:
        """The object. NotFoundError if it does not exist."""
        return self._ask(self._call("get", kind, name), patience)

    def list(
        self,
        kind: str,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
        patience: float | None = None,
    ) -> Objects:
        """All objects with these labels. `fields`: a field selector such as
        "status.phase=Running"."""
        return self._list(kind, _selectors(labels, fields), patience)[0]

    def create(
        self,
        body: Object,
        dry_run: bool = False,
        again: bool = False,
        patience: float | None = None,
    ) -> Object:
        """Creates an object and returns it. `dry_run`: the server validates it without creating it.
        `again`: also if it may have been made before, which is then an ExistsError."""
        query = [*self.writing, ("dryRun", "All")] if dry_run else self.writing
        name = body.get("metadata", {}).get("name", "")
        again = again or dry_run
        call = self._call("create", body["kind"], name, query=query, body=body, again=again)
        return self._ask(call, patience)

    def make(self, body: Object, patience: float | None = None) -> Object:
        """Creates an object whose name nobody else gives: one that exists was made by an attempt
        whose answer was lost."""
        try:
            return self.create(body, again=True, patience=patience)
        except ExistsError:
            return self.require(body["kind"], body["metadata"]["name"], patience)

    def patch(self, kind: str, name: str, body: Object, patience: float | None = None) -> Object:
        """Applies a merge patch. ConflictError if `body` has a resourceVersion that is not the
        newest."""
        return self._ask(self._call("patch", kind, name, query=self.writing, body=body), patience)

    def delete(
        self,
        kind: str,
        name: str,
        foreground: bool = False,
        grace: int | None = None,
        seen: Mapping[str, str] | None = None,
        patience: float | None = None,
    ) -> bool:
        """Deletes an object; False if it does not exist. `foreground`: it is kept until all
        dependents are deleted. `grace`: grace period for the processes of a pod, in seconds.
        `seen`: the uid and resourceVersion that it must still have; ConflictError."""
        options: Object = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if seen:
            options["preconditions"] = seen
        try:
            self._ask(self._call("delete", kind, name, body=options), patience)
        except NotFoundError:
            return False
        return True

    def watch(
        self,
        kind: str,
        labels: Mapping[str, str] | None = None,
        name: str = "",
        timeout: float = float("inf"),
        away: Callable[[str], None] = _nobody,
        listed: Callable[[Objects], None] = _nobody,
    ) -> Iterator[tuple[str, Object]]:
        """Yields pairs of "ADDED", "MODIFIED" or "DELETED" and the object for `timeout` seconds, or
        until `close`: first the existing objects, then changes. While the API server does not
        answer it is retried; `away` is called with the reason, and with "" when it answers again.
        An object that was created and deleted meanwhile is not reported; a deleted one is reported
        with its last known state. `listed` gets all objects, whenever they are read anew."""
        query = _selectors(labels, f"metadata.name={name}" if name else "")
        deadline = self._clock() + timeout
        known: dict[str, Object] = {}
        version, silent, waits = "", False, pauses()
        while self._clock() < deadline and not self._closed:
            try:
                if not version:
                    objects, fresh = self._list(kind, query, patience=0)
                    listed(objects)
                    yield from _compared(known, objects)
                    version = fresh
                for change, changed in self._changes(kind, query, version, deadline):
                    version, waits = changed["metadata"]["resourceVersion"], pauses()
                    if silent:
                        silent = False
                        away("")
                    if change == "BOOKMARK":
                        continue
                    _remember(known, change, changed)
                    yield change, changed
                if silent:
                    silent = False
                    away("")
            except GoneError:
                version = ""
            except TfappError as error:
                if not isinstance(error, AwayError):
                    if not self.refusals_pass:
                        raise
                    version = ""
                silent = True
                away(error.message)
                self._sleep(max(0.0, min(next(waits), deadline - self._clock())))

    def close(self) -> None:
        """Ends each `watch`, when the server ends it. Calls are not affected."""
        self._closed = True

    # ---- calls -----------------------------------------------------------------------------------
    def refuse(self, code: int, text: str, asked: Asked) -> TfappError:
        """The exception for an answer with HTTP status `code`."""
        return failure(code, text, asked)

    @contextlib.contextmanager
    def _open(
        self, call: ApiCall, silence: float = 0.0, patience: float | None = None
    ) -> Iterator[Answer]:
        """The answer, once its headers are received. `silence`: a timeout in seconds; 0: that of
        calls."""
        answer = self._send(call, patience, lambda answer: answer, silence)
        try:
            yield answer
        finally:
            answer.close()

    def _call(
        self, verb: str, kind: str, name: str = "", subresource: str = "", **more: Any
    ) -> ApiCall:
        asked = Asked(self.source, verb, KINDS[kind], self.namespace, name, subresource)
        new = verb == "create" and not subresource
        path = KINDS[kind].path(self.namespace, "" if new else name, subresource)
        return ApiCall(asked, path, **more)

    def _ask(self, call: ApiCall, patience: float | None = None) -> Object:
        return self._send(call, patience, self._parsed)

    def _parsed(self, answer: Answer) -> Any:
        try:
            return json.loads(answer.text())
        except ValueError:
            message = f"what answers at {self.transport.server} is no Kubernetes API"
            raise AwayError(message, CHECK) from None

    def _send(
        self,
        call: ApiCall,
        patience: float | None,
        read: Callable[[Answer], T],
        silence: float = 0.0,
    ) -> T:
        """What `read` makes of an answer with a status of success."""
        begun, renewed, waits = self._clock(), False, pauses()
        limit = self.patience if patience is None else patience
        while True:
            pause = next(waits)
            try:
                answer = self.transport.send(call, silence or self.transport.silence)
                if answer.status < 300:
                    found = read(answer)
                    self.transport.answered = True
                    return found
                text = answer.text()
            except AwayError as error:
                refused: TfappError = error
            else:
                self.transport.answered = True
                if answer.status == UNAUTHORIZED and not renewed:
                    renewed = True
                    self.transport.renew()
                    continue
                refused = self.refuse(answer.status, text, call.asked)
                pause = max(pause, answer.retry_after)
            if self._clock() + pause > begun + self._limit(refused, call, limit):
                raise refused
            self._sleep(pause)

    def _limit(self, refused: TfappError, call: ApiCall, patience: float) -> float:
        """Seconds in which `call` is made again after `refused`."""
        if isinstance(refused, AwayError):
            unharmed = call.again or not refused.sent
            return patience if self.transport.answered and unharmed else 0.0
        forbidden = isinstance(refused, ForbiddenError) and self.refusals_pass
        return min(patience, FORBIDDEN_LIMIT) if forbidden else 0.0

    def _list(self, kind: str, query: Query, patience: float | None = None) -> tuple[Objects, str]:
        """The objects, with kind and apiVersion, and the resourceVersion of the list."""
        objects: Objects = []
        more = ""
        while True:
            pages = [*query, ("limit", str(PAGE)), *([("continue", more)] if more else [])]
            try:
                answer = self._ask(self._call("list", kind, query=pages), patience)
            except GoneError:  # it took too long between two pages
                objects, more = [], ""
                continue
            of = {"apiVersion": KINDS[kind].version, "kind": kind}
            objects += [{**of, **each} for each in answer.get("items") or ()]
            more = answer.get("metadata", {}).get("continue", "")
            if not more:
                return objects, answer["metadata"]["resourceVersion"]

    def _changes(
        self, kind: str, query: Query, version: str, deadline: float
    ) -> Iterator[tuple[str, Object]]:
        """Changes after `version`, for WATCH seconds or until `deadline`. GoneError."""
        seconds = max(1, int(min(WATCH, deadline - self._clock())))
        wanted = [
            *query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
            ("resourceVersion", version),
        ]
        call = self._call("watch", kind, query=wanted)
        with self._open(call, SILENCE, patience=0) as answer:
            for line in itertools.chain.from_iterable(answer.lines()):
                event = _event(line)
                if event["type"] == "ERROR":
                    text = json.dumps(event["object"])
                    raise self.refuse(event["object"].get("code", 500), text, call.asked)
                yield event["type"], event["object"]


def pauses() -> Iterator[float]:
    """Seconds between attempts, without end."""
    for attempt in itertools.count():
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt, 10))
        yield pause * _chance.uniform(0.7, 1)


_chance = random.Random()  # of its own: a thread that waits does not disturb the shared one


def _event(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise AwayError(f"a watch of the API server broke: {error}") from error


def _selectors(labels: Mapping[str, str] | None, fields: str) -> Query:
    query = []
    if labels:
        query.append(("labelSelector", names.selector(labels)))
    if fields:
        query.append(("fieldSelector", fields))
    return query


def _compared(known: dict[str, Object], objects: Sequence[Object]) -> Iterator[tuple[str, Object]]:
    """The changes from `known` (uid -> object) to `objects`; updates `known`."""
    there = {each["metadata"]["uid"] for each in objects}
    for uid in [uid for uid in known if uid not in there]:
        yield "DELETED", known.pop(uid)
    for each in objects:
        before = known.get(each["metadata"]["uid"])
        same = (
            before and before["metadata"]["resourceVersion"] == each["metadata"]["resourceVersion"]
        )
        if not same:
            _remember(known, "ADDED", each)
            yield ("MODIFIED" if before else "ADDED"), each


def _remember(known: dict[str, Object], change: str, changed: Object) -> None:
    if change == "DELETED":
        known.pop(changed["metadata"]["uid"], None)
    else:
        known[changed["metadata"]["uid"]] = changed
