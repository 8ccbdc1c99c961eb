"""Checks this machine and a Kubernetes cluster for the needs of applications."""

from __future__ import annotations

import email.utils
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding, checked, examine_here
from tfapp.engines.kubernetes import configuration, names
from tfapp.engines.kubernetes.api import Cluster
from tfapp.engines.kubernetes.capacity import ready, shown, total
from tfapp.engines.kubernetes.failures import RefusedObjectError
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

SKEW = 30.0  # seconds that clocks may differ by: a run's credentials begin when they are made
MAX_NAMED = 8  # objects of a kind
_TRIAL = "tfapp-doctor"
_ENFORCED = "pod-security.kubernetes.io/enforce"
_SHOWN = ("cpu", "memory")


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
        cluster = Cluster.open(environ, namespace, context)
    except TfappError as error:
        yield Finding("configuration", PROBLEM, error.message, error.hint)
        return
    where = f"{cluster.source}, namespace {cluster.namespace}"
    yield Finding("configuration", OK, where)
    server = checked("api", lambda: f"{cluster.version()}, {cluster.server}")
    yield server
    if server.level == PROBLEM:
        return
    yield examine_clock(cluster, clock)
    place = checked("namespace", lambda: describe_namespace(cluster))
    yield place
    if place.level == PROBLEM:
        return
    yield from examine_rights(cluster)
    yield examine_admission(cluster)
    yield from examine_nodes(cluster)
    yield from examine_quotas(cluster)
    yield examine_storage(cluster)


def examine_clock(cluster: Cluster, clock: Callable[[], float]) -> Finding:
    """Compares the clock of the API server with that of this machine."""
    told = cluster.date()
    try:
        skew = email.utils.parsedate_to_datetime(told).timestamp() - clock()
    except (TypeError, ValueError):
        return Finding("clock", WARNING, "the API server does not tell the time")
    if abs(skew) > SKEW:
        relation = "ahead of" if skew > 0 else "behind"
        text = f"the clock of the API server is {abs(skew):.0f} s {relation} this one"
        return Finding("clock", PROBLEM, text, "Have all machines set their clocks by NTP.")
    return Finding("clock", OK, f"within {SKEW:g} s of that of the API server")


def describe_namespace(cluster: Cluster) -> str:
    """Checks that the namespace exists, as far as the login may see it. NotFoundError if it does
    not."""
    name = cluster.namespace
    try:
        found = cluster.require("Namespace", name)
    except ForbiddenError:
        return f"{name}, which this login may not look at"
    level = (found["metadata"].get("labels") or {}).get(_ENFORCED)
    return f"{name}, where Pod Security is {level!r}" if level else name


def examine_rights(cluster: Cluster) -> Iterator[Finding]:
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


def examine_admission(cluster: Cluster) -> Finding:
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


def examine_nodes(cluster: Cluster) -> Iterator[Finding]:
    """Lists the nodes that accept pods, with their resources."""
    try:
        nodes = cluster.list("Node")
    except ForbiddenError:
        yield Finding("nodes", OK, "not looked at: this login may not list them")
        return
    taking = [node for node in nodes if ready(node)]
    if not taking:
        hint = "`kubectl get nodes` says why, unless nodes are added when pods wait."
        yield Finding("nodes", WARNING, f"none of {len(nodes)} nodes takes pods", hint)
        return
    amounts = total(taking)
    devices = sorted(key for key in amounts if "/" in key and not key.startswith("hugepages"))
    size = ", ".join(shown(key, amounts[key]) for key in (*_SHOWN, *devices) if key in amounts)
    yield Finding("nodes", OK, f"{len(taking)} of {len(nodes)} take pods, together {size}")


def examine_quotas(cluster: Cluster) -> Iterator[Finding]:
    """Reports the usage of each ResourceQuota."""
    try:
        quotas = cluster.list("ResourceQuota")
    except ForbiddenError:
        return
    for quota in quotas[:MAX_NAMED]:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        parts = ", ".join(f"{used.get(key, '0')} of {most} {key}" for key, most in hard.items())
        yield Finding("quota", OK, f"{quota['metadata']['name']}: {parts or 'nothing is limited'}")


def examine_storage(cluster: Cluster) -> Finding:
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
