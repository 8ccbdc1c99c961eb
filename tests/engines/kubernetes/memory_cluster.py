"""A cluster of objects in memory, without controllers, nodes and processes."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from tfapp.engines.kubernetes.api import ConflictError
from tfapp.errors import ExistsError, UnavailableError


class MemoryCluster:
    """See tfapp.engines.kubernetes.api.Cluster. `refuses`: kinds that may not be created."""

    namespace = "team"
    context = "here"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.refuses: dict[str, BaseException] = {}
        self.away = False
        self._numbers = itertools.count(1)

    def get(self, kind, name):
        self._answer()
        return copy.deepcopy(self.objects.get((kind, name)))

    def require(self, kind, name):
        """Of a namespace, which is always there."""
        assert (kind, name) == ("Namespace", self.namespace)

    def list(self, kind, labels=None, fields=""):
        self._answer()
        found = [item for (k, _), item in self.objects.items() if k == kind]
        wanted = (labels or {}).items()
        return [i for i in found if wanted <= i["metadata"].get("labels", {}).items()]

    def create(self, body, dry_run=False):
        self._answer()
        key = (body["kind"], body["metadata"]["name"])
        if key in self.objects:
            raise ExistsError("there is one")
        item = copy.deepcopy(body)
        item["metadata"] |= {"uid": f"uid-{next(self._numbers)}", **self._version()}
        self.objects[key] = item
        if body["kind"] in self.refuses:  # it may have been made before it was interrupted
            raise self.refuses[body["kind"]]
        return copy.deepcopy(item)

    def patch(self, kind, name, body):
        self._answer()
        item = self.objects[kind, name]
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, item["metadata"]["resourceVersion"]):
            raise ConflictError("changed meanwhile")
        for key, value in body["data"].items():
            if value is None:
                item["data"].pop(key, None)
            else:
                item["data"][key] = value
        item["metadata"] |= self._version()
        return copy.deepcopy(item)

    def delete(self, kind, name, foreground=False, grace=None):
        self._answer()
        found = self.objects.pop((kind, name), None)
        if found is None:
            return False
        uid = found["metadata"]["uid"]
        for other_kind, other in list(self.objects):
            owners = self.objects[other_kind, other]["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == uid for owner in owners):
                self.delete(other_kind, other)
        return True

    def names(self) -> list[str]:
        """All objects, "Job/tfapp-train-1"."""
        return sorted("/".join(key) for key in self.objects)

    def _version(self):
        return {"resourceVersion": str(next(self._numbers))}

    def _answer(self):
        if self.away:
            raise UnavailableError("the API is away")
