"""Kueue for the cluster: built of its Go module, with its webhooks, for Jobs and plain pods.

https://kueue.sigs.k8s.io/
"""

from __future__ import annotations

import base64
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubernetes_cluster.processes import run
from kubernetes_cluster.programs import FETCH_LIMIT, MODULE, Module

FOLDER = MODULE / "kueue"  # of its go.mod
NAMESPACE = "kueue-system"
CERTIFICATES = "/etc/kueue/metrics/certs"  # where it looks for its own
WEBHOOKS = "/run/kueue"  # and where it is told to look for those of its webhooks
CRDS = "config/components/crd/bases"  # in its module
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "kueue.x-k8s.io"
OWN = f"{GROUP}/v1beta2"
PORT = 9443  # of its webhooks
_SYSTEM = ["kube-system", NAMESPACE]
CREATE, BOTH = ["CREATE"], ["CREATE", "UPDATE"]


def _take_crds(go: Path, folder: Path, environ: Mapping[str, str]) -> None:
    listed = [str(go), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"]
    place = run(listed, FETCH_LIMIT, "looking for Kueue's module", environ, FOLDER).strip()
    shutil.copytree(Path(place, CRDS), folder / "crds")


# `build` makes a folder with the program `kueue`, and the CRDs in `crds`.
KUEUE = Module("Kueue", FOLDER, "kueue", 7, lambda: "-s -w", _take_crds)


def configuration() -> dict[str, Any]:
    """Its file: it manages Jobs and pods that name a queue, in all namespaces but the system's."""
    system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": _SYSTEM}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": "127.0.0.1:8081"},
        "metrics": {"bindAddress": "127.0.0.1:8443"},
        "webhook": {"port": PORT, "certDir": WEBHOOKS},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "managedJobsNamespaceSelector": {"matchExpressions": [system]},
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "clientConnection": {"qps": 100, "burst": 200},
    }


def script(folder: Path, pki: Path, pair: str, config: Path, kubeconfig: Path) -> str:
    """The shell script that becomes it, in a mount namespace of its own. `pair`: the name of its
    certificate and key in `pki`."""
    lines = ["mount -t tmpfs none /etc"]
    for place in (CERTIFICATES, WEBHOOKS):
        lines.append(f"mkdir -p {place}")
        for suffix in ("crt", "key"):
            lines.append(f"cp {shlex.quote(f'{pki}/{pair}.{suffix}')} {place}/tls.{suffix}")
    words = [f"{folder}/kueue", f"--config={config}", f"--kubeconfig={kubeconfig}"]
    words.append("--feature-gates=VisibilityOnDemand=false")
    return "\n".join([*lines, f"exec {shlex.join(words)}"])


def webhooks(authority: bytes) -> Iterator[dict[str, Any]]:
    """What the API server asks it, at 127.0.0.1 of the control plane. `authority`: the certificate
    of the authority that has signed Kueue's."""
    bundle = base64.b64encode(authority).decode()
    for kind, asks in (("Mutating", "mutate"), ("Validating", "validate")):
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "kueue"},
            "webhooks": [
                {
                    "name": f"{asks}-{resource}.kueue.test",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{PORT}/{asks}-{path}",
                        "caBundle": bundle,
                    },
                    "rules": [
                        {
                            "apiGroups": [group],
                            "apiVersions": [version],
                            "operations": CREATE if asks == "mutate" else BOTH,
                            "resources": [resource],
                        }
                    ],
                    "namespaceSelector": {
                        "matchExpressions": [
                            {
                                "key": "kubernetes.io/metadata.name",
                                "operator": "NotIn",
                                "values": _SYSTEM,
                            }
                        ]
                    },
                }
                for path, group, version, resource in _ASKED
            ],
        }


# (path behind "mutate-" or "validate-", group, version, resource)
_ASKED = (
    ("-v1-pod", "", "v1", "pods"),
    ("batch-v1-job", "batch", "v1", "jobs"),
    *(
        (f"kueue-x-k8s-io-v1beta2-{kind}", GROUP, "v1beta2", f"{kind}s")
        for kind in ("clusterqueue", "resourceflavor", "workload")
    ),
)


def queue(
    name: str, namespace: str, quota: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, body) of the objects of a queue: a flavor for all nodes, a cluster queue in which
    workloads of higher priority evict others, and a local queue of the same name. `quota`: of
    each resource that pods request."""
    flavor = {
        "name": name,
        "resources": [{"name": key, "nominalQuota": value} for key, value in quota.items()],
    }
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(quota), "flavors": [flavor]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    root = f"/apis/{OWN}"
    local = f"{root}/namespaces/{namespace}/localqueues"
    for path, kind, wanted in (
        (f"{root}/resourceflavors", "ResourceFlavor", {}),
        (f"{root}/clusterqueues", "ClusterQueue", spec),
        (local, "LocalQueue", {"clusterQueue": name}),
    ):
        metadata = {"name": name}
        yield path, {"apiVersion": OWN, "kind": kind, "metadata": metadata, "spec": wanted}
