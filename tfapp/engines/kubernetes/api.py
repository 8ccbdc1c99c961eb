"""The client of the API server. Objects are plain dictionaries, as in manifests.

Methods raise the exceptions of `failures`: AwayError if the API server does not answer,
ForbiddenError with the missing RBAC rule, NotFoundError for a missing namespace, ExistsError,
ConflictError and RefusedObjectError; and UnavailableError if a login or a certificate is not
accepted. A server that has answered before is retried for half a minute (`transport.PATIENCE`).
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfapp.engines.kubernetes import configuration
from tfapp.engines.kubernetes.configuration import Access
from tfapp.engines.kubernetes.failures import (
    TO_WEBSOCKETS,
    Asked,
    AwayError,
    ConflictError,
    ExecError,
    GoneError,
    RefusedObjectError,
    forbidden,
    read_status,
    rejected,
)
from tfapp.engines.kubernetes.kinds import KINDS, Kind
from tfapp.engines.kubernetes.transport import MERGE, PATIENCE, Query, Transport
from tfapp.errors import ForbiddenError, NotFoundError, TfappError

__all__ = [
    "AwayError",
    "Cluster",
    "ConflictError",
    "ExecError",
    "RefusedObjectError",
]

PAGE = 500  # objects of one answer to a list
WATCH = 30  # seconds after which a watch is asked for anew
SILENCE = 45.0  # seconds without a word after which a watch is broken
LOG_SILENCE = 120.0  # the same of a log that is followed, which is then asked for again
CHUNK = 1 << 16
STRICT = ("fieldValidation", "Strict")

_SYSTEM, _AUTOSCALER = "kube-system", "cluster-autoscaler-status"

Object = dict[str, Any]
Objects = list[Object]

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z")


def _no_one(sentence: str) -> None:
    """A receiver that ignores the reason."""


class Cluster:
    """A cluster, a login and a namespace. Thread-safe."""

    def __init__(
        self,
        access: Access,
        renewed: Callable[[], Access] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.namespace = access.namespace
        self.context = access.context
        self._transport = _Transport(self, access, renewed or (lambda: access), clock, sleep)

    @classmethod
    def open(cls, environ: Mapping[str, str], namespace: str = "", context: str = "") -> Cluster:
        """A client for KUBECONFIG, ~/.kube/config or the pod of this process, without a call.
        UnavailableError, with the file and the context, if the configuration cannot be used."""
        load = functools.partial(configuration.load, environ, namespace, context)
        return cls(load(), load)

    @property
    def source(self) -> str:
        """The cluster and the login in words: "context 'a' of /home/b/.kube/config"."""
        return self._transport.access.source

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._transport.access.server

    @property
    def in_cluster(self) -> bool:
        """Whether this process runs in a pod of the cluster."""
        return self._transport.access.in_cluster

    # ---- objects ---------------------------------------------------------------------------------
    def get(self, kind: str, name: str) -> Object | None:
        """The object; None if it does not exist."""
        try:
            return self.require(kind, name)
        except NotFoundError:
            return None

    def require(self, kind: str, name: str) -> Object:
        """The object. NotFoundError if it does not exist."""
        return self._call("get", KINDS[kind], "GET", name)

    def list(self, kind: str, labels: Mapping[str, str] | None = None, fields: str = "") -> Objects:
        """All objects with these labels. `fields`: a field selector such as
        "status.phase=Running"."""
        return self._list(KINDS[kind], _selectors(labels, fields))[0]

    def create(self, body: Object, dry_run: bool = False) -> Object:
        """Creates an object and returns it. Unknown fields are refused. `dry_run`: the server
        validates it without creating it."""
        kind = KINDS[body["kind"]]
        query = [STRICT, ("dryRun", "All")] if dry_run else [STRICT]
        name = body.get("metadata", {}).get("name", "")
        # Made twice, the second answer would be that it exists.
        return self._call("create", kind, "POST", name, query, body, again=dry_run)

    def patch(self, kind: str, name: str, body: Object) -> Object:
        """Applies a merge patch. ConflictError if `body` has a resourceVersion that is not the
        newest."""
        return self._call("patch", KINDS[kind], "PATCH", name, [STRICT], body, MERGE)

    def delete(
        self, kind: str, name: str, foreground: bool = False, grace: int | None = None
    ) -> bool:
        """Deletes an object; False if it does not exist. `foreground`: it is kept until all
        dependents are deleted. `grace`: grace period for the processes of a pod, in seconds."""
        policy = "Foreground" if foreground else "Background"
        query = [("propagationPolicy", policy)]
        if grace is not None:
            query.append(("gracePeriodSeconds", str(grace)))
        try:
            self._call("delete", KINDS[kind], "DELETE", name, query)
        except NotFoundError:
            return False
        return True

    def watch(
        self,
        kind: str,
        labels: Mapping[str, str] | None = None,
        name: str = "",
        timeout: float = float("inf"),
        away: Callable[[str], None] = _no_one,
    ) -> Iterator[tuple[str, Object]]:
        """Yields pairs of "ADDED", "MODIFIED" or "DELETED" and the object for `timeout` seconds:
        first the existing objects, then changes. While the API server does not answer it is
        retried; `away` is called with the reason, and with "" when it answers again. An object that
        was created and deleted meanwhile is not reported; a deleted one is reported with its last
        known state."""
        found = KINDS[kind]
        query = _selectors(labels, f"metadata.name={name}" if name else "")
        clock, deadline = self._transport.clock, self._transport.clock() + timeout
        known: dict[str, Object] = {}
        version, silent, pause = "", False, 0.1
        while clock() < deadline:
            try:
                if not version:
                    objects, fresh = self._list(found, query, patience=0)
                    yield from _compared(known, objects)
                    version = fresh
                for change, changed in self._changes(found, query, version, deadline - clock()):
                    version = changed["metadata"]["resourceVersion"]
                    pause = 0.1
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
            except AwayError as error:
                silent = True
                away(error.message)
                self._transport.sleep(max(0.0, min(pause, deadline - clock())))
                pause = min(pause * 2, 2.0)

    # ---- pods ------------------------------------------------------------------------------------
    def log(
        self,
        pod: str,
        container: str,
        since: str = "",
        tail: int | None = None,
        follow: bool = False,
        away: Callable[[str], None] = _no_one,
    ) -> Iterator[bytes]:
        """Yields the lines of a container's log with their line breaks, each after its time (RFC
        3339 with nanoseconds) and a space. `since`: a time; lines from its second on. `tail`: only
        the last lines. `follow`: until the container has ended; after a broken connection it
        continues with the next line. `away`: see `watch`. NotFoundError if there is no such pod."""
        asked = self._asked("get", KINDS["Pod"], pod, "log")
        path = KINDS["Pod"].path(self.namespace, pod, "log")
        begin, silent, pause = _moment(since), False, 0.1
        read: Moment | None = None  # of the last line so far
        broken = False
        while True:
            query = [("container", container), ("timestamps", "true")]
            if follow:
                query.append(("follow", "true"))
            start = read or begin
            if start is not None:
                query.append(("sinceTime", start.second))  # it knows whole seconds alone
            if tail is not None and read is None:
                query.append(("tailLines", str(tail)))
            silence, patience = (LOG_SILENCE, 0.0) if follow else (SILENCE, PATIENCE)
            try:
                with self._transport.open(
                    asked, "GET", path, query, silence=silence, patience=patience
                ) as response:
                    if silent:
                        away("")
                    silent, broken, pause, before = False, True, 0.1, read
                    for line in _lines(response.stream(CHUNK)):
                        moment = _moment(line[:40].partition(b" ")[0].decode("ascii", "replace"))
                        if moment is not None:
                            if before and moment.nanoseconds <= before.nanoseconds:
                                continue
                            read = moment
                        yield line
                return
            except AwayError as error:
                if not follow:
                    raise
                # One that breaks, or is quiet for long, is asked for again before that is told.
                if not broken:
                    silent = True
                    away(error.message)
                broken = False
                self._transport.sleep(pause)
                pause = min(pause * 2, 2.0)

    def exec(self, pod: str, container: str, command: Sequence[str]) -> Iterator[bytes]:
        """Yields the standard output of a command in a running container. ExecError at the end if
        the command fails."""
        from tfapp.engines.kubernetes import websockets

        asked = self._asked("create", KINDS["Pod"], pod, "exec")
        path = KINDS["Pod"].path(self.namespace, pod, "exec")
        return websockets.run(self._transport, asked, path, container, command)

    @contextlib.contextmanager
    def forward(self, pod: str, port: int) -> Iterator[tuple[str, int]]:
        """A context manager: host and port on this machine that lead to a port of a pod, for any
        number of connections. Inside the cluster, the address of the pod. ForbiddenError, and
        NotFoundError for a missing pod, at once; AwayError if the pod has no address yet. A
        connection that fails later is closed."""
        if self.in_cluster:
            yield self._address(pod), port
            return
        from tfapp.engines.kubernetes import forward, websockets

        asked = self._asked("create", KINDS["Pod"], pod, "portforward")
        path = KINDS["Pod"].path(self.namespace, pod, "portforward")
        missing = [verb for verb in TO_WEBSOCKETS if not self.allowed(verb, "pods", "portforward")]
        if missing:
            raise forbidden(asked, TO_WEBSOCKETS)
        self._address(pod)
        query = [("ports", str(port))]
        opened = functools.partial(websockets.connect, self._transport, asked, path, query)
        with forward.Forward(opened) as local:
            yield local

    # ---- rights ----------------------------------------------------------------------------------
    def allowed(
        self,
        verb: str,
        resource: str,
        subresource: str = "",
        group: str = "",
        namespaced: bool = True,
    ) -> bool:
        """Whether the login has a permission, in the namespace or in the whole cluster."""
        kind = KINDS["SelfSubjectAccessReview"]
        attributes = {
            "namespace": self.namespace if namespaced else "",
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
        }
        body = {
            "apiVersion": kind.version,
            "kind": kind.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._call("create", kind, "POST", "", (), body)
        return bool(answer.get("status", {}).get("allowed"))

    def rules(self) -> Objects:
        """The permissions of the login in the namespace, as far as the API server can list them:
        the `resourceRules` of a SelfSubjectRulesReview."""
        kind = KINDS["SelfSubjectRulesReview"]
        spec = {"namespace": self.namespace}
        body = {"apiVersion": kind.version, "kind": kind.kind, "spec": spec}
        answer = self._call("create", kind, "POST", "", (), body)
        return answer.get("status", {}).get("resourceRules") or []

    def version(self) -> str:
        """The version of the API server, such as "v1.37.2"."""
        asked = self._asked("get", KINDS["Node"], "")
        return str(self._transport.call(asked, "GET", "/version").get("gitVersion", ""))

    def date(self) -> str:
        """The time of the API server, from the header Date; "" if there is none."""
        asked = self._asked("get", KINDS["Namespace"], "")
        with self._transport.open(asked, "GET", "/version") as response:
            return response.headers.get("Date", "")

    def groups(self) -> tuple[str, ...]:
        """The API groups of the server."""
        asked = self._asked("get", KINDS["Namespace"], "")
        found = self._transport.call(asked, "GET", "/apis").get("groups") or ()
        return tuple(each["name"] for each in found)

    def autoscaled(self) -> bool:
        """Whether the cluster autoscaler has published its status; False if the login may not read
        it."""
        asked = Asked(self.source, "get", KINDS["ConfigMap"], _SYSTEM, _AUTOSCALER)
        with contextlib.suppress(NotFoundError, ForbiddenError):
            self._transport.call(asked, "GET", asked.kind.path(_SYSTEM, _AUTOSCALER))
            return True
        return False

    # ---- calls -----------------------------------------------------------------------------------
    def _asked(self, verb: str, kind: Kind, name: str, subresource: str = "") -> Asked:
        return Asked(self.source, verb, kind, self.namespace, name, subresource)

    def _call(
        self,
        verb: str,
        kind: Kind,
        method: str,
        name: str,
        query: Query = (),
        body: Object | None = None,
        content: str = "application/json",
        again: bool = True,
    ) -> Object:
        path = kind.path(self.namespace, "" if method == "POST" else name)
        asked = self._asked(verb, kind, name)
        return self._transport.call(asked, method, path, query, body, content, again)

    def _list(self, kind: Kind, query: Query, patience: float = PATIENCE) -> tuple[Objects, str]:
        """The objects, with kind and apiVersion, and the resourceVersion of the list."""
        asked, path = self._asked("list", kind, ""), kind.path(self.namespace)
        objects: Objects = []
        more = ""
        while True:
            pages: Query = [*query, ("limit", str(PAGE)), *([("continue", more)] if more else [])]
            try:
                answer = self._transport.call(asked, "GET", path, pages, patience=patience)
            except GoneError:  # it took too long between two pages
                objects, more = [], ""
                continue
            of = {"apiVersion": kind.version, "kind": kind.kind}
            objects += [{**of, **each} for each in answer.get("items") or ()]
            more = answer.get("metadata", {}).get("continue", "")
            if not more:
                return objects, answer["metadata"]["resourceVersion"]

    def _changes(
        self, kind: Kind, query: Query, version: str, most: float
    ) -> Iterator[tuple[str, Object]]:
        """Changes after `version`, for WATCH seconds or `most` of them. GoneError."""
        asked = self._asked("watch", kind, "")
        seconds = str(max(1, int(min(WATCH, most))))
        wanted = [
            *query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds),
            ("resourceVersion", version),
        ]
        path = kind.path(self.namespace)
        with self._transport.open(
            asked, "GET", path, wanted, silence=SILENCE, patience=0
        ) as response:
            for line in _lines(response.stream(CHUNK)):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    text = json.dumps(event["object"])
                    raise self._transport.refuse(event["object"].get("code", 500), text, asked)
                yield event["type"], event["object"]

    def _address(self, pod: str) -> str:
        """The address of a pod."""
        found = self.get("Pod", pod)
        if found is None:
            raise NotFoundError(f"there is no Pod {pod!r} in namespace {self.namespace!r}")
        address = found.get("status", {}).get("podIP")
        if not address:
            raise AwayError(f"Pod {pod!r} in namespace {self.namespace!r} has not started yet")
        return address


class _Transport(Transport):
    """Distinguishes missing RBAC rules from refusals by admission and quotas. Both are answered
    with 403 Forbidden, so it asks whether the verb is allowed."""

    def __init__(self, cluster: Cluster, *args: Any):
        super().__init__(*args)
        self._cluster = cluster

    def refuse(self, code: int, text: str, asked: Asked) -> Exception:
        refused = super().refuse(code, text, asked)
        status = read_status(text)
        elsewhere = asked.namespace != self._cluster.namespace
        if not isinstance(refused, ForbiddenError) or elsewhere or _is_review(asked.kind):
            return refused
        kind = asked.kind
        verbs = TO_WEBSOCKETS if asked.subresource in ("exec", "portforward") else (asked.verb,)
        with contextlib.suppress(TfappError):
            may = [
                self._cluster.allowed(
                    verb, kind.resource, asked.subresource, kind.group, kind.namespaced
                )
                for verb in verbs
            ]
            if all(may) and status:
                return rejected(status, status.get("message", ""), asked)
            return forbidden(asked, verbs)
        return refused


def _is_review(kind: Kind) -> bool:
    return kind.group == KINDS["SelfSubjectAccessReview"].group


def _selectors(labels: Mapping[str, str] | None, fields: str) -> list[tuple[str, str]]:
    query = []
    if labels:
        query.append(("labelSelector", ",".join(f"{k}={v}" for k, v in labels.items())))
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


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines with their line breaks; the last one may have none."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


class Moment(NamedTuple):
    """The time at the beginning of a line of a log. `second`: as in the log, without the
    fraction."""

    nanoseconds: int  # since 1970
    second: str


def _moment(text: str) -> Moment | None:
    """Parses a time of RFC 3339 with a fraction of any length; None for other text."""
    match = _TIME.match(text)
    if match is None:
        return None
    whole, fraction, zone = match[1], match[2] or "", match[3]
    aware = datetime.datetime.fromisoformat(whole + zone.replace("Z", "+00:00"))
    nanoseconds = int(aware.timestamp()) * 10**9 + int(fraction[:9].ljust(9, "0"))
    return Moment(nanoseconds, whole + zone)
