"""Pods for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes_cluster.api import Api, ApiError
from kubernetes_cluster.images import PYTHON

from tests.waiting import wait

LIMIT = 300.0  # seconds


class Namespace:
    def __init__(self, api: Api, name: str):
        self.api = api
        self.name = name
        self.path = f"/api/v1/namespaces/{name}"
        self._volumes: list[str] = []  # those of `claim`

    def create(self) -> None:
        """Returns once pods can be made in it."""
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            wait_for(lambda path=path: self.found(path), f"{path} of {self.name}")

    def claim(self, name: str, folder: Path) -> None:
        """A PersistentVolumeClaim (ReadWriteMany), bound to a PersistentVolume of its own: a folder
        of this machine, on all nodes the same."""
        modes, storage, volume = ["ReadWriteMany"], {"storage": "1Gi"}, f"{self.name}-{name}"
        spec = {"accessModes": modes, "capacity": storage, "hostPath": {"path": str(folder)}}
        body = {"metadata": {"name": volume}, "spec": {**spec, "storageClassName": ""}}
        self.api.call("POST", "/api/v1/persistentvolumes", body)
        self._volumes.append(volume)
        spec = {"accessModes": modes, "storageClassName": "", "volumeName": volume}
        spec["resources"] = {"requests": storage}
        body = {"metadata": {"name": name}, "spec": spec}
        self.api.call("POST", f"{self.path}/persistentvolumeclaims", body)

    def delete(self) -> None:
        """Returns at once; its objects go one after the other."""
        for volume in self._volumes:
            self.api.call("DELETE", f"/api/v1/persistentvolumes/{volume}")
        with contextlib.suppress(ApiError):
            self.api.call("DELETE", f"{self.path}/pods?gracePeriodSeconds=0")
        self.api.call("DELETE", self.path)

    def add(self, group: str, kind: str, body: dict[str, Any]) -> None:
        """An object of an API group, as "rbac.authorization.k8s.io/v1", of the plural `kind`."""
        self.api.call("POST", f"/apis/{group}/namespaces/{self.name}/{kind}", body)

    def run(self, name: str, code: str, node: int | None = None, **spec: Any) -> None:
        """Makes a pod that runs Python's `code`, on one node or on any."""
        container = {"name": "main", "image": PYTHON, "command": ["python3", "-uc", code]}
        container |= spec.pop("container", {})
        chosen = {} if node is None else {"kubernetes.io/hostname": f"node{node}"}
        wanted = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": chosen,
            "containers": [container],
            **spec,
        }
        body = {"metadata": {"name": name}, "spec": wanted}
        self.api.call("POST", f"{self.path}/pods", body)

    def pod(self, name: str) -> dict[str, Any]:
        """As it is now. ApiError when there is none."""
        return self.api.call("GET", f"{self.path}/pods/{name}")

    def pods(self) -> list[dict[str, Any]]:
        """All that there are."""
        return self.api.call("GET", f"{self.path}/pods")["items"]

    def wait(self, name: str, *phases: str) -> dict[str, Any]:
        """The pod, once it is in one of `phases`."""
        wait_for(lambda: self.pod(name)["status"].get("phase") in phases, f"{phases} of {name}")
        return self.pod(name)

    def log(self, name: str) -> str:
        """What a pod has written so far."""
        return self.api.text("GET", f"{self.path}/pods/{name}/log")

    def found(self, path: str) -> bool:
        try:
            self.api.call("GET", f"{self.path}/{path}")
        except ApiError as error:
            assert error.code == 404, error
            return False
        return True


def wait_for(ready: Callable[[], object], what: str, limit: float = LIMIT) -> None:
    wait(ready, f"no {what} within {limit:g} s", limit)
