"""Kueue with one queue, and nodes with room for everything: what its controller and its webhook do
with pods, and with plain groups of them, as version 0.17 does it. Its quota counts pods.

Not played: flavors, roles, cohorts, priorities (a test says who is evicted), and MultiKueue.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from tests.engines.kubernetes.api_server import Answer, ApiServer, Request
from tfapp.engines.kubernetes.pod import names

GATE = {"name": "kueue.x-k8s.io/admission"}
HELD = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
OVER = ("Succeeded", "Failed")


@dataclasses.dataclass
class Workload:
    """Of a pod or a group. `state`: "pending", "admitted", "evicted" or "finished"."""

    count: int
    state: str = "pending"


class PlayedKueue(ApiServer):
    """`quota`: how many pods it admits at once. A pod that it admits runs; `ends` says that one has
    ended."""

    def __init__(self, namespace: str, quota: int):
        super().__init__(namespace)
        self.quota = quota
        self.workloads: dict[str, Workload] = {}  # in the order in which they came

    # ---- what a test does and asks -----------------------------------------------------------
    def evict(self, name: str, reason: str = "Preempted") -> None:
        """Takes the quota of a workload back. Its pods end when the test says so."""
        with self.changed:
            self.workloads[name].state = "evicted"
            told = {
                "type": "TerminationTarget",
                "status": "True",
                "reason": f"WorkloadEvictedDueTo{reason}",
                "message": "Preempted to accommodate a workload (UID: 7)",
            }
            for pod in self._members(name):
                if not (_over(pod) or _gated(pod)):
                    self._write(pod, deleted=True, conditions=[told])
            self._settle()

    def ends(self, name: str, code: int = 143) -> None:
        """The program of a pod ends, and with it the pod."""
        with self.changed:
            end = {"name": names.CONTAINER, "state": {"terminated": {"exitCode": code}}}
            phase = "Failed" if code else "Succeeded"
            self._write(self.objects[f"Pod/{name}"], phase=phase, containerStatuses=[end])
            self._settle()

    def lose(self, name: str) -> None:
        """The node of a pod is lost: nobody says that the pod has ended."""
        with self.changed:
            told = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByTaintManager",
            }
            self._write(self.objects[f"Pod/{name}"], deleted=True, conditions=[told])

    def live(self) -> list[str]:
        return self._names(lambda pod: pod["status"]["phase"] == "Running")

    def held(self) -> list[str]:
        return self._names(lambda pod: _gated(pod) and not _over(pod))

    # ---- what it does ------------------------------------------------------------------------
    def _carried_out(self, request: Request) -> Answer:
        item = self.objects.get(request.key)
        finalizers = item and item["metadata"].get("finalizers")
        if request.method == "DELETE" and finalizers:
            self._write(item, deleted=True)
            answer = Answer(copy.deepcopy(self.objects[request.key]))
        elif request.method == "PATCH" and "activeDeadlineSeconds" in request.body.get("spec", {}):
            answer = super()._carried_out(request)
            self.ends(request.key.partition("/")[2])
        else:
            answer = super()._carried_out(request)
        self._settle()
        return answer

    def _made(self, kind: str, body: dict[str, Any]) -> Answer:
        if names.QUEUE_LABEL in body["metadata"].get("labels", {}):
            body = copy.deepcopy(body)
            body["metadata"]["labels"][names.MANAGED] = "true"
            body["metadata"]["finalizers"] = [names.MANAGED]
            body["spec"]["schedulingGates"] = [GATE]
        answer = super()._made(kind, body)
        if kind == "Pod" and answer.code == 201:
            pod = self.objects[f"Pod/{body['metadata']['name']}"]
            if "schedulingGates" in pod["spec"]:
                self._write(pod, conditions=[HELD])
        return answer

    def _settle(self) -> None:
        """Controllers, scheduler and kubelets, until there is nothing to do."""
        self._collect()
        for name in dict.fromkeys(map(_workload, self._pods())):
            self._reconcile(name)
        for workload in [w for w in self.workloads.values() if w.state == "pending"]:
            used = sum(self._used(n) for n in self.workloads)
            if used + workload.count <= self.quota:
                workload.state = "admitted"
        for pod in self._pods():
            known = self.workloads.get(_workload(pod))
            admitted = known is not None and known.state == "admitted"
            if admitted and _gated(pod) and not _over(pod) and not _deleted(pod):
                spec = {k: v for k, v in pod["spec"].items() if k != "schedulingGates"}
                self._write({**pod, "spec": {**spec, "nodeName": "n"}}, "Running", conditions=[])

    def _reconcile(self, name: str) -> None:
        pods = self._members(name)
        first = pods[0]["metadata"]
        count = int(first["annotations"][names.GROUP_COUNT]) if name in _groups(pods) else 1
        active = [pod for pod in pods if not _deleted(pod) and not _failed(pod) or _runs(pod)]
        known = self.workloads.get(name)
        if known is None:
            if len(active) < count:
                return  # "group has fewer runnable pods than expected"
            known = self.workloads[name] = Workload(count)
        for pod in active[count:]:  # the newest
            self.drop(f"Pod/{pod['metadata']['name']}")
        ended = all(_over(pod) for pod in pods)
        final = any(
            pod["metadata"]["annotations"].get(names.GROUP_RETRIABLE) == "false" for pod in pods
        )
        if ended and (final or name not in _groups(pods)):
            known.state = "finished"
        elif known.state == "evicted" and not any(map(_runs, pods)) and len(active) == count:
            known.state = "pending"
        if known.state == "finished":
            gone = pods
        else:  # those for which others have come
            gone = [pod for pod in pods if _failed(pod)][: max(0, len(pods) - count)]
        for pod in gone:
            if pod["metadata"].pop("finalizers", None):
                self._write(pod)
                if _deleted(pod):
                    self.drop(f"Pod/{pod['metadata']['name']}")

    def _collect(self) -> None:
        """The garbage collector: pods that are deleted and have no node."""
        for pod in self._pods():
            if _deleted(pod) and "nodeName" not in pod["spec"] and not _over(pod):
                self._write(pod, "Failed")

    def _used(self, name: str) -> int:
        """Of the quota. Only what has succeeded is given back by a group that goes on."""
        known, pods = self.workloads[name], self._members(name)
        if known.state == "admitted":
            return known.count - sum(pod["status"]["phase"] == "Succeeded" for pod in pods)
        evicted = known.state == "evicted" and any(map(_runs, pods))
        return known.count if evicted else 0

    # ---- its objects -------------------------------------------------------------------------
    def _write(
        self, pod: dict[str, Any], phase: str = "", deleted: bool = False, **more: Any
    ) -> None:
        pod = copy.deepcopy(pod)
        if deleted:
            pod["metadata"].setdefault("deletionTimestamp", "2026-11-28T09:00:00Z")
        pod["status"].update(**({"phase": phase} if phase else {}), **more)
        self.put(f"Pod/{pod['metadata']['name']}", pod)

    def _pods(self) -> list[dict[str, Any]]:
        return [
            copy.deepcopy(item)
            for key, item in self.objects.items()
            if key.startswith("Pod/") and names.MANAGED in item["metadata"]["labels"]
        ]

    def _members(self, name: str) -> list[dict[str, Any]]:
        return [pod for pod in self._pods() if _workload(pod) == name]

    def _names(self, wanted: Any) -> list[str]:
        with self.changed:
            return sorted(pod["metadata"]["name"] for pod in self._pods() if wanted(pod))


def _workload(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    return str(metadata["labels"].get(names.GROUP_LABEL) or metadata["name"])


def _groups(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["labels"].get(names.GROUP_LABEL) for pod in pods}


def _over(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in OVER


def _failed(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Failed")


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _gated(pod: dict[str, Any]) -> bool:
    return GATE in pod["spec"].get("schedulingGates", ())


def _deleted(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]
