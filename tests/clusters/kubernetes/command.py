"""`tfapp --engine kubernetes` as people call it, in a namespace of a test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubernetes_cluster.cluster import Cluster

from tests.clusters.kubernetes.namespace import Namespace, wait_for
from tests.clusters.kubernetes.pod_images import TENSORFLOW
from tests.end_to_end.command_line import CommandLine

# A pod asks for little CPU: the nodes share the cores of one machine.
FRUGAL = ("-i", TENSORFLOW, "--option", "site.global.kubernetes.cpu.request", "10m")


def seeing(folder: Path) -> tuple[str, ...]:
    """Flags: pods have this folder of the machine, under its own path."""
    return ("--option", "site.global.kubernetes.volumes", f"hostPath:{folder}:{folder}")


class OnKubernetes(CommandLine):
    """With a TFAPP_HOME and a namespace of its own."""

    def __init__(self, work: Path, home: Path, cluster: Cluster, namespace: Namespace):
        environ = {**cluster.variables(), "TFAPP_ENGINE": "kubernetes"}
        super().__init__(work, home, environ=environ, flags=("--namespace", namespace.name))
        self.cluster = cluster
        self.namespace = namespace

    def elsewhere(self, home: Path) -> OnKubernetes:
        """The same user at another machine."""
        return OnKubernetes(self.work, home, self.cluster, self.namespace)

    def run(self, script: Path, name: str, *flags: object) -> None:
        """Begins an application, and waits until it runs. Its pods see `work`."""
        words = ("run", script, "--name", name, *FRUGAL, *seeing(self.work), *flags)
        self.ok(*words, "--detach", "--wait", 300)

    # -- what the cluster has --
    def pods(self, name: str) -> dict[str, dict[str, Any]]:
        """Those of an application, by the instance; the master's is ""."""
        found = {}
        for pod in self.namespace.pods():
            labels = pod["metadata"].get("labels", {})
            if labels.get("tfapp/application") == name:
                found[labels.get("tfapp/instance", "")] = pod
        return found

    def left(self) -> list[int]:
        """Nothing of an application that has ended runs on the nodes. A pod on a node that was lost
        cannot be told from one that runs, but that it is to be deleted."""
        wait_for(lambda: not self._running(), "end of all pods")
        return []

    def _running(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.namespace.pods()
            if pod["status"].get("phase") not in ("Succeeded", "Failed")
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def objects(self) -> list[str]:
        """All that tfapp has made, "secrets/tfapp-train"."""
        core, batch = self.namespace.path, f"/apis/batch/v1/namespaces/{self.namespace.name}"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace.name}"
        kinds = [(core, k) for k in ("pods", "secrets", "configmaps", "serviceaccounts")]
        policy = (f"/apis/policy/v1/namespaces/{self.namespace.name}", "poddisruptionbudgets")
        kinds += [(batch, "jobs"), (rbac, "roles"), (rbac, "rolebindings"), policy]
        selector = "labelSelector=app.kubernetes.io/managed-by%3Dtfapp"
        return [
            f"{kind}/{item['metadata']['name']}"
            for path, kind in kinds
            for item in self.namespace.api.call("GET", f"{path}/{kind}?{selector}")["items"]
        ]

    def delete(self, kind: str, name: str, grace: int = 0) -> None:
        """As a user's kubectl does."""
        path = f"{self.namespace.path}/{kind}/{name}?gracePeriodSeconds={grace}"
        self.namespace.api.call("DELETE", path)

    def node(self, pod: dict[str, Any]) -> int:
        """The number of the node that a pod is on."""
        return int(pod["spec"]["nodeName"].removeprefix("node"))

    # -- what tfapp says --
    def instances(self, name: str) -> dict[str, dict[str, Any]]:
        return {i["instance"]: i for i in self.status(name)["status"]["instances"]}

    def wait(self, name: str, code: int) -> dict[str, Any]:
        """The status of an application after its end."""
        ended = self("wait", name)
        assert ended.code == code, self.asks("diagnostics", name) + ended.err
        return self.status(name)["status"]

    def forms(self, name: str, generation: int) -> None:
        """Waits until all programs of a generation run."""

        def formed() -> bool:
            status = self.status(name)["status"]
            running = all(i["state"] == "RUNNING" for i in status["instances"])
            return status["generation"] >= generation and status["state"] == "RUNNING" and running

        wait_for(formed, f"generation {generation} of {name}")
