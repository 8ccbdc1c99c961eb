"""The permissions that a login needs in its namespace, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod.failures import TO_WEBSOCKETS, rule
from tfapp.errors import ForbiddenError

_RBAC = "rbac.authorization.k8s.io"


class Right(NamedTuple):
    """Verbs on a resource: "pods" or "pods/log"."""

    verbs: tuple[str, ...]
    resource: str
    group: str = ""


# To launch, follow and end applications.
NEEDED = (
    Right(("create", "get", "list", "watch", "patch", "delete"), "configmaps"),
    Right(("create", "get", "delete"), "secrets"),
    Right(("create", "get", "delete"), "jobs", "batch"),
    Right(("get", "list", "watch", "delete"), "pods"),
    Right(("get",), "pods/log"),
    Right(("list",), "events"),
)
# To make the service account of a master. Where it is named in the configuration nobody needs it.
OF_ACCOUNTS = (
    Right(("create",), "serviceaccounts"),
    Right(("create",), "roles", _RBAC),
    Right(("create",), "rolebindings", _RBAC),
)
# To limit the evictions of its pods, where the configuration asks for that.
OF_BUDGETS = (Right(("create",), "poddisruptionbudgets", "policy"),)
# To reach masters and programs.
OF_PORTS = (Right(TO_WEBSOCKETS, "pods/portforward"),)
# To read the checkpoint folder.
OF_FILES = (Right(("create",), "pods"), Right(TO_WEBSOCKETS, "pods/exec"))


def missing(cluster: KubernetesCluster, needed: Iterable[Right]) -> tuple[Right, ...]:
    """The missing permissions among `needed`, each with its missing verbs."""
    rules = cluster.rules()
    lacking = []
    for right in needed:
        resource, _, subresource = right.resource.partition("/")
        verbs = tuple(
            verb
            for verb in right.verbs
            # What the rules do not show may still be allowed, by another authorizer.
            if not covered(rules, verb, right)
            and not cluster.allowed(verb, resource, subresource, right.group)
        )
        if verbs:
            lacking.append(right._replace(verbs=verbs))
    return tuple(lacking)


def covered(rules: Sequence[Mapping[str, Any]], verb: str, right: Right) -> bool:
    """Whether one of the `resourceRules` of a review allows the verb for objects of any name."""
    subresource = right.resource.partition("/")[2]
    names = {right.resource, "*"} | ({f"*/{subresource}"} if subresource else set())
    return any(
        not each.get("resourceNames")
        and not {verb, "*"}.isdisjoint(each.get("verbs") or ())
        and not {right.group, "*"}.isdisjoint(each.get("apiGroups") or ())
        and not names.isdisjoint(each.get("resources") or ())
        for each in rules
    )


def refusal(
    cluster: KubernetesCluster, lacking: Sequence[Right], instead: str = ""
) -> ForbiddenError:
    """The error for missing permissions, with the RBAC rules in one sentence. `instead`: an
    alternative."""
    what = "; ".join(f"{', '.join(each.verbs)} {each.resource}" for each in lacking)
    hint = f"Ask its owner for a Role in namespace {cluster.namespace!r} with the rules "
    hint += ", ".join(rule(each.group, each.resource, each.verbs) for each in lacking) + "."
    return ForbiddenError(
        f"{cluster.source} may not, in namespace {cluster.namespace!r}: {what}",
        f"{hint} {instead}".strip(),
    )
