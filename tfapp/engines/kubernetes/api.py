"""The client of the API server for commands: objects, pods and rights. See `pod.api`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfapp.engines.kubernetes import configuration
from tfapp.engines.kubernetes.configuration import Access
from tfapp.engines.kubernetes.pod.api import SILENCE, Api, ApiCall, Lines, Object, Objects
from tfapp.engines.kubernetes.pod.failures import (
    KINDS,
    TO_WEBSOCKETS,
    Asked,
    AwayError,
    forbidden,
    read_status,
    rejected,
)
from tfapp.engines.kubernetes.transport import PoolTransport
from tfapp.errors import ForbiddenError, NotFoundError, TfappError

LOG_SILENCE = 120.0  # seconds without a line after which a log is asked for again


class KubernetesCluster(Api):
    """A cluster, a login and a namespace. Unknown fields of objects are refused. Thread-safe."""

    transport: PoolTransport
    writing = (("fieldValidation", "Strict"),)

    def __init__(
        self,
        access: Access,
        renewed: Callable[[], Access] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        transport = PoolTransport(access, renewed or (lambda: access))
        super().__init__(transport, access.namespace, clock, sleep)
        self.context = access.context
        self._followed: set[Callable[[], object]] = set()  # break off the logs that are followed

    @classmethod
    def open(
        cls, environ: Mapping[str, str], namespace: str = "", context: str = ""
    ) -> KubernetesCluster:
        """A client for KUBECONFIG, ~/.kube/config or the pod of this process, without a call.
        UnavailableError, with the file and the context, if the configuration cannot be used."""
        load = functools.partial(configuration.load, environ, namespace, context)
        return cls(load(), load)

    @property
    def server(self) -> str:
        return self.transport.server

    @property
    def in_cluster(self) -> bool:
        """Whether this process runs in a pod of the cluster."""
        return self.transport.access.in_cluster

    def refuse(self, code: int, text: str, asked: Asked) -> TfappError:
        """See Api.refuse. Distinguishes missing RBAC rules from refusals by admission and quotas.
        Both are answered with 403 Forbidden, so it asks whether the verb is allowed."""
        refused = super().refuse(code, text, asked)
        status = read_status(text)
        reviews = KINDS["SelfSubjectAccessReview"].group
        if not isinstance(refused, ForbiddenError) or asked.kind.group == reviews:
            return refused
        kind = asked.kind
        verbs = TO_WEBSOCKETS if asked.subresource in ("exec", "portforward") else (asked.verb,)
        with contextlib.suppress(TfappError):
            may = [
                self.allowed(verb, kind.resource, asked.subresource, kind.group, kind.namespaced)
                for verb in verbs
            ]
            if all(may) and status:
                return rejected(status, status.get("message", ""), asked)
            return forbidden(asked, verbs)
        return refused

    # ---- pods ------------------------------------------------------------------------------------
    def log(
        self, pod: str, container: str, since: str = "", follow: bool = False
    ) -> Iterator[Lines]:
        """Yields the lines of a container's log with their line breaks, each after its time (RFC
        3339 with nanoseconds) and a space, in lists, as they arrive. The first list is empty: the
        log is there. `since`: a time; lines from its second on. `follow`: until the container has
        ended; AwayError if the connection breaks, and after LOG_SILENCE seconds without a line.
        NotFoundError if there is no such pod."""
        query = [("container", container), ("timestamps", "true")]
        query += [("follow", "true")] if follow else []
        query += [("sinceTime", since)] if since else []
        silence, patience = (LOG_SILENCE, 0.0) if follow else (SILENCE, None)
        call = self._call("get", "Pod", pod, "log", query=query)
        with self._open(call, silence, patience) as answer:
            self._followed.add(answer.hang_up)
            try:
                yield []
                yield from answer.lines()
            finally:
                self._followed.discard(answer.hang_up)

    def hang_up(self) -> None:
        """Breaks off all logs that are being read, and closes what waits for the next call."""
        for hang_up in tuple(self._followed):
            hang_up()
        self.transport.rest()

    def exec(self, pod: str, container: str, command: Sequence[str]) -> Iterator[bytes]:
        """Yields the standard output of a command in a running container. ExecError at the end if
        the command fails."""
        from tfapp.engines.kubernetes import websockets

        query = [*(("command", word) for word in command), ("container", container)]
        query += [("stdout", "true"), ("stderr", "true")]
        call = self._call("create", "Pod", pod, "exec", query=query)
        return websockets.run(self.transport, self.refuse, call, command)

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

        call = self._call("create", "Pod", pod, "portforward", query=[("ports", str(port))])
        missing = [verb for verb in TO_WEBSOCKETS if not self.allowed(verb, "pods", "portforward")]
        if missing:
            raise forbidden(call.asked, TO_WEBSOCKETS)
        self._address(pod)
        opened = functools.partial(websockets.connect, self.transport, self.refuse, call)
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
        attributes = {
            "namespace": self.namespace if namespaced else "",
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
        }
        found = self._review("SelfSubjectAccessReview", {"resourceAttributes": attributes})
        return bool(found.get("allowed"))

    def rules(self) -> Objects:
        """The permissions of the login in the namespace, as far as the API server can list them:
        the `resourceRules` of a SelfSubjectRulesReview."""
        found = self._review("SelfSubjectRulesReview", {"namespace": self.namespace})
        return found.get("resourceRules") or []

    def _review(self, kind: str, spec: Object) -> Object:
        body = {"apiVersion": KINDS[kind].version, "kind": kind, "spec": spec}
        return self._ask(self._call("create", kind, body=body)).get("status", {})

    def version(self) -> str:
        """The version of the API server, such as "v1.37.2"."""
        return str(self._ask(self._version).get("gitVersion", ""))

    def date(self) -> str:
        """The time of the API server, from the header Date; "" if there is none."""
        with self._open(self._version) as answer:
            return answer.headers.get("Date", "")

    @property
    def _version(self) -> ApiCall:
        return dataclasses.replace(self._call("get", "Node"), path="/version")

    def _address(self, pod: str) -> str:
        found = self.get("Pod", pod)
        if found is None:
            raise NotFoundError(f"there is no Pod {pod!r} in namespace {self.namespace!r}")
        address = found.get("status", {}).get("podIP")
        if not address:
            raise AwayError(f"Pod {pod!r} in namespace {self.namespace!r} has not started yet")
        return address
