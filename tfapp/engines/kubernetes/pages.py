"""Makes the pages of instances accessible on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

from tfapp.engines.kubernetes import names
from tfapp.engines.kubernetes.api import Cluster
from tfapp.errors import UnavailableError


@contextlib.contextmanager
def reaching(cluster: Cluster, name: str, run: int, instance: str, address: str) -> Iterator[str]:
    """A context manager: a URL that leads to `address`, a URL of a pod: through the API server or,
    inside the cluster, directly. UnavailableError if the instance has no running pod."""
    if cluster.in_cluster:
        yield address
        return
    labels = {**names.run_labels(name, run), names.INSTANCE: names.instance_label(instance)}
    pods = cluster.list("Pod", labels, "status.phase=Running")
    if not pods:
        raise UnavailableError(f"{instance} of {name} has no running pod")
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
    url = urlsplit(address)
    port = url.port or (443 if url.scheme == "https" else 80)
    with cluster.forward(newest["metadata"]["name"], port) as (host, local):
        shown = f"[{host}]" if ":" in host else host
        yield url._replace(netloc=f"{shown}:{local}").geturl()
