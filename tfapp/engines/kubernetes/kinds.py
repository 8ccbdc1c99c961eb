"""The API paths of kinds of objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote


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
        """The path on the API server."""
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
        Kind("Service", "v1", "services"),
        Kind("Event", "v1", "events"),
        Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
        Kind("ResourceQuota", "v1", "resourcequotas"),
        Kind("LimitRange", "v1", "limitranges"),
        Kind("Namespace", "v1", "namespaces", namespaced=False),
        Kind("Node", "v1", "nodes", namespaced=False),
        Kind("PersistentVolume", "v1", "persistentvolumes", namespaced=False),
        Kind("Role", _RBAC, "roles"),
        Kind("RoleBinding", _RBAC, "rolebindings"),
        Kind("Job", _BATCH, "jobs"),
        Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
        Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", namespaced=False),
        Kind("LocalQueue", "kueue.x-k8s.io/v1beta1", "localqueues"),
        Kind("SelfSubjectAccessReview", _LOGIN, "selfsubjectaccessreviews", namespaced=False),
        Kind("SelfSubjectRulesReview", _LOGIN, "selfsubjectrulesreviews", namespaced=False),
    )
}
