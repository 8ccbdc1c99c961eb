"""Checks this machine and a Kubernetes cluster for the needs of applications."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.engines.diagnosis import (
    OK,
    PROBLEM,
    WARNING,
    Finding,
    ahead,
    checked,
    examine_clocks,
    examine_here,
)
from tfapp.engines.kubernetes import configuration
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.failures import RefusedObjectError
from tfapp.engines.kubernetes.pods import Places
from tfapp.engines.kubernetes.preflight import own_account
from tfapp.engines.kubernetes.rights import (
    NEEDED,
    OF_ACCOUNTS,
    OF_FILES,
    OF_PORTS,
    Right,
    missing,
    refusal,
)
from tfapp.engines.kubernetes.volumes import SHARED_MODES
from tfapp.errors import ForbiddenError, TfappError

MAX_NAMED = 8  # objects of a kind
_TRIAL = "tfapp-doctor"
_ENFORCED = "pod-security.kubernetes.io/enforce"


def examine(
    home: Path,
    environ: Mapping[str, str],
    namespace: str,
    context: str,
    clock: Callable[[], float],
) -> Iterator[Finding]:
    """All checks, in the order of `tfapp doctor`. Checks that need another one which failed are
    left out. `clock`: returns seconds since 1970."""
    yield from examine_here(home)
    library = checked("library", lambda: f"kubernetes {configuration.library().__version__}")
    yield library
    if library.level == PROBLEM:
        return
    try:
        cluster = KubernetesCluster.open(environ, namespace, context)
    except TfappError as error:
        yield Finding("configuration", PROBLEM, error.message, error.hint)
        return
    where = f"{cluster.source}, namespace {cluster.namespace}"
    yield Finding("configuration", OK, where)
    server = checked("api", lambda: f"{cluster.version()}, {cluster.server}")
    yield server
    if server.level == PROBLEM:
        return
    yield examine_clocks({"the API server": ahead(cluster.date(), clock())})
    place = checked("namespace", lambda: describe_namespace(cluster))
    yield place
    if place.level == PROBLEM:
        return
    yield from examine_rights(cluster)
    yield examine_admission(cluster)
    yield from examine_nodes(cluster)
    yield from examine_quotas(cluster)
    yield examine_storage(cluster)


def describe_namespace(cluster: KubernetesCluster) -> str:
    """Checks that the namespace exists, as far as the login may see it. NotFoundError if it does
    not."""
    name = cluster.namespace
    try:
        found = cluster.require("Namespace", name)
    except ForbiddenError:
        return f"{name}, which this login may not look at"
    level = (found["metadata"].get("labels") or {}).get(_ENFORCED)
    return f"{name}, where Pod Security is {level!r}" if level else name


def examine_rights(cluster: KubernetesCluster) -> Iterator[Finding]:
    """The rights that the login lacks: first those that every application needs, then those that
    only some need."""

    def check(needed: Iterable[Right], instead: str, text: str) -> str:
        lacking = missing(cluster, needed)
        if lacking:
            raise refusal(cluster, lacking, instead)
        return text

    account = own_account(Places("doctor", "", cluster.namespace))
    for subject, needed, instead, text, level in (
        ("rights", NEEDED, "", "to launch, follow and end applications", PROBLEM),
        ("accounts", OF_ACCOUNTS, account, "to make a master's service account", WARNING),
        ("ports", OF_PORTS, "", "to bring large files, and for stop, flex, TensorBoard", WARNING),
        ("files", OF_FILES, "", "to fetch what is in the checkpoint folder", WARNING),
    ):
        found = checked(subject, functools.partial(check, needed, instead, text))
        yield Finding(subject, OK if found.level == OK else level, found.text, found.hint)


def examine_admission(cluster: KubernetesCluster) -> Finding:
    """Checks by a dry run that a small pod of tfapp's kind, without a user, is admitted."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    size = {"cpu": "100m", "memory": "64Mi"}
    container = {
        "name": names.CONTAINER,
        "image": "tfapp.invalid/none",
        "resources": {"requests": size, "limits": {"memory": size["memory"]}},
        "securityContext": security,
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    metadata = {"name": _TRIAL, "namespace": cluster.namespace}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    try:
        cluster.create(body, dry_run=True)
    except RefusedObjectError as error:
        hint = "Where it must not run as root: site.global.kubernetes.user, as 1000."
        return Finding("pods", WARNING, error.message, hint)
    except ForbiddenError:
        return Finding("pods", OK, "not tried: this login may not make any itself")
    return Finding("pods", OK, "a pod would be taken")


def examine_nodes(cluster: KubernetesCluster) -> Iterator[Finding]:
    """Lists the nodes that accept pods, with their resources."""
    try:
        nodes = cluster.list("Node")
    except ForbiddenError:
        yield Finding("nodes", OK, "not looked at: this login may not list them")
        return
    taking = [node for node in nodes if _takes_pods(node)]
    if not taking:
        hint = "`kubectl get nodes` says why, unless nodes are added when pods wait."
        yield Finding("nodes", WARNING, f"none of {len(nodes)} nodes takes pods", hint)
        return
    size = ", ".join(_resources(taking))
    yield Finding("nodes", OK, f"{len(taking)} of {len(nodes)} take pods, together {size}")


def _takes_pods(node: Mapping[str, Any]) -> bool:
    """Whether a node is ready and not cordoned."""
    conditions = node["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("unschedulable")


def _resources(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Processors, memory and devices of all nodes together."""
    found: Counter[str] = Counter()
    for node in nodes:
        for name, amount in (node["status"].get("allocatable") or {}).items():
            if name in ("cpu", "memory") or "/" in name:
                found[name] += configuration.quantity(amount)
    for name, total in sorted(found.items(), key=lambda item: ("/" in item[0], item[0])):
        yield (
            f"{total // 2**20} MiB of memory"
            if name == "memory"
            else f"{float(round(total, 1)):.10g} {name}"
        )


def examine_quotas(cluster: KubernetesCluster) -> Iterator[Finding]:
    try:
        quotas = cluster.list("ResourceQuota")
    except ForbiddenError:
        return
    for quota in quotas[:MAX_NAMED]:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        parts = ", ".join(f"{used.get(key, '0')} of {most} {key}" for key, most in hard.items())
        yield Finding("quota", OK, f"{quota['metadata']['name']}: {parts or 'nothing is limited'}")


def examine_storage(cluster: KubernetesCluster) -> Finding:
    """Lists the PersistentVolumeClaims that can hold checkpoints."""
    try:
        claims = cluster.list("PersistentVolumeClaim")
    except ForbiddenError:
        return Finding("storage", OK, "not looked at: this login may not list claims")
    described = ", ".join(map(_described, claims[:MAX_NAMED]))
    if not any(SHARED_MODES & set(claim["spec"].get("accessModes") or ()) for claim in claims):
        text = described or "there is no PersistentVolumeClaim"
        hint = (
            "Checkpoints of pods on several nodes need a ReadWriteMany claim, an NFS volume or "
            "an object store."
        )
        return Finding("storage", WARNING, text, hint)
    return Finding("storage", OK, described)


def _described(claim: Mapping[str, Any]) -> str:
    modes = ", ".join(claim["spec"].get("accessModes") or ())
    phase = (claim.get("status") or {}).get("phase", "")
    return f"{claim['metadata']['name']} ({modes}{f', {phase}' if phase != 'Bound' else ''})"
