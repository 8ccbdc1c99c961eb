"""The kinds of objects with their API paths, and the errors of the API server as exceptions with
one sentence. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from tfapp.errors import (
    BadStateError,
    ExistsError,
    ExitCode,
    ForbiddenError,
    NotFoundError,
    TfappError,
    UnavailableError,
)

TO_WEBSOCKETS = ("get", "create")  # create too, from Kubernetes 1.35 on
LATER = frozenset({401, 429, 503})  # HTTP: it did nothing, and may do it later


class Kind(NamedTuple):
    """`version`: as in apiVersion. `resource`: the name in paths and in rules of RBAC."""

    kind: str
    version: str
    resource: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; "" for the core group."""
        return self.version.rpartition("/")[0]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced else ""
        parts = [self.resource, *(quote(part, safe="") for part in (name, subresource) if part)]
        return f"{root}{within}/{'/'.join(parts)}"


_RBAC, _BATCH, _LOGIN = "rbac.authorization.k8s.io/v1", "batch/v1", "authorization.k8s.io/v1"

KINDS: Mapping[str, Kind] = {
    kind.kind: kind
    for kind in (
        Kind("ConfigMap", "v1", "configmaps"),
        Kind("Secret", "v1", "secrets"),
        Kind("Pod", "v1", "pods"),
        Kind("ServiceAccount", "v1", "serviceaccounts"),
        Kind("Event", "v1", "events"),
        Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
        Kind("ResourceQuota", "v1", "resourcequotas"),
        Kind("Namespace", "v1", "namespaces", namespaced=False),
        Kind("Node", "v1", "nodes", namespaced=False),
        Kind("Role", _RBAC, "roles"),
        Kind("RoleBinding", _RBAC, "rolebindings"),
        Kind("Job", _BATCH, "jobs"),
        Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
        Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
        Kind("LocalQueue", "kueue.x-k8s.io/v1beta1", "localqueues"),
        Kind("SelfSubjectAccessReview", _LOGIN, "selfsubjectaccessreviews", namespaced=False),
        Kind("SelfSubjectRulesReview", _LOGIN, "selfsubjectrulesreviews", namespaced=False),
    )
}


class AwayError(UnavailableError):
    """The API server does not answer, or is temporarily unavailable. `sent`: whether the request
    may have taken effect."""

    def __init__(self, message: str, hint: str = "", sent: bool = True):
        super().__init__(message, hint)
        self.sent = sent


class RefusedObjectError(TfappError):
    """The API server refuses an object: an invalid field, an exceeded quota or an admission rule.
    `causes`: pairs of a field ("" if unknown) and a message."""

    exit_code = ExitCode.BAD_CONFIGURATION

    def __init__(self, message: str, hint: str = "", causes: tuple[tuple[str, str], ...] = ()):
        super().__init__(message, hint)
        self.causes = causes


class ConflictError(BadStateError):
    """The object has been changed since it was read."""


class GoneError(TfappError):
    """The resourceVersion is too old: a list must be read again."""


class ExecError(TfappError):
    """A command in a container failed. `code`: its exit code, -1 if it did not start."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, code: int, stderr: str):
        super().__init__(message, stderr.strip())
        self.code = code
        self.stderr = stderr


class Asked(NamedTuple):
    """A call: the verb and the object. `source`: the cluster and the login, in words."""

    source: str
    verb: str  # as in rules of RBAC
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource as in rules of RBAC: "pods/log"."""
        return f"{self.kind.resource}/{self.subresource}".rstrip("/")

    @property
    def place(self) -> str:
        return f" in namespace {self.namespace!r}" if self.kind.namespaced else ""

    @property
    def what(self) -> str:
        return f"{self.kind.kind} {self.name!r}" if self.name else self.resource


def failure(code: int, text: str, asked: Asked) -> TfappError:
    """The exception for an answer with HTTP status `code` and body `text`. 403 is treated as
    missing RBAC permissions; see `rejected`."""
    status = read_status(text)
    words = status.get("message") or f"HTTP {code}"
    if not status and code not in (401, 403):
        words = f"HTTP {code}, and no words of a Kubernetes API"
    reason = status.get("reason", "")
    details = status.get("details") or {}
    if code == 401:
        return UnavailableError(
            f"the Kubernetes API does not accept the login of {asked.source}",
            "It has expired, or is of another cluster. Log in again.",
        )
    if code == 403:
        return forbidden(asked, (asked.verb,))
    if code == 404:
        return _not_found(asked, details, words)
    if code == 409:
        if reason == "AlreadyExists":
            return ExistsError(f"there is a {asked.what}{asked.place} already")
        return ConflictError(f"the {asked.what}{asked.place} was changed meanwhile: {words}")
    if code == 410:
        return GoneError(words)
    if asked.subresource and code == 400:
        return BadStateError(f"{asked.subresource} of {asked.what}{asked.place}: {words}")
    if code in (400, 413, 422):
        return rejected(status, words, asked)
    if code in (408, 429) or code >= 500:
        message = f"the Kubernetes API of {asked.source} cannot answer now: {words}"
        return AwayError(message, sent=code not in LATER)
    return UnavailableError(f"the Kubernetes API of {asked.source} answered: {words}")


def rejected(status: Mapping[str, Any], words: str, asked: Asked) -> RefusedObjectError:
    """The exception for an object that admission or validation refuses."""
    details = status.get("details") or {}
    causes = tuple(
        (cause.get("field", ""), cause.get("message", ""))
        for cause in details.get("causes") or ()
        if cause.get("message")
    )
    message = f"the Kubernetes API does not take the {asked.what}{asked.place}: {words}"
    return RefusedObjectError(message, "", causes or (("", words),))


def forbidden(asked: Asked, verbs: Iterable[str]) -> ForbiddenError:
    verbs = tuple(verbs)
    return ForbiddenError(
        f"{asked.source} may not {' and '.join(verbs)} {asked.resource}{asked.place}",
        f"Ask its owner for a {'Role' if asked.kind.namespaced else 'ClusterRole'}"
        f"{asked.place} with the rule {rule(asked.kind.group, asked.resource, verbs)}.",
    )


def rule(group: str, resource: str, verbs: Iterable[str]) -> str:
    """A rule of a Role, as one line of YAML."""
    listed = ", ".join(verbs)
    return f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{listed}]}}'


def read_status(text: str) -> dict[str, Any]:
    """The Status object of an answer; {} if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _not_found(asked: Asked, details: Mapping[str, Any], words: str) -> TfappError:
    if details.get("kind") == "namespaces" or asked.kind == KINDS["Namespace"]:
        name = details.get("name") or asked.name
        return NotFoundError(
            f"there is no namespace {name!r} in the cluster of {asked.source}",
            f"Name another with --namespace, or make it: `kubectl create namespace {name}`.",
        )
    if asked.name and details.get("name") == asked.name:
        return NotFoundError(f"there is no {asked.what}{asked.place}")
    return NotFoundError(
        f"the Kubernetes API of {asked.source} has not found {asked.resource}: {words}",
        f"Does that cluster have {asked.kind.version}?",
    )
