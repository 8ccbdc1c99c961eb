"""A real cluster for the tests of this folder, started at the first of them and stopped after the
last, and a namespace for each."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_cluster.cluster import Cluster
from kubernetes_cluster.images import place_of_layer
from kubernetes_cluster.processes import UnavailableError
from kubernetes_cluster.programs import is_built

from tests.clusters.kubernetes import pod_images
from tests.clusters.kubernetes.command import OnKubernetes
from tests.clusters.kubernetes.namespace import Namespace, wait_for
from tests.lacking import lacking

NOT_BUILT = (
    "it is not built; `python examples/kubernetes-cluster/cluster.py build` does that, once, in "
    "about 6 minutes"
)


@pytest.fixture(scope="package")
def cache() -> Path:
    """Where the cluster's programs are."""
    return Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()


@pytest.fixture(scope="package")
def cluster(cache, tmp_path_factory) -> Iterator[Cluster]:
    """Two nodes that have the images of `pod_images`. Tests leave both ready."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster") / "kubernetes", cache)
    try:
        # Pytest's limit is too short for building it.
        if not is_built(cache, os.environ) or not place_of_layer(cache).is_file():
            raise UnavailableError(NOT_BUILT)
        images = pod_images.make(cache, tmp_path_factory.mktemp("images"), os.environ)
        cluster.start(folders=pod_images.FOLDERS)
    except UnavailableError as error:
        lacking(f"this machine has no Kubernetes cluster: {error}")
    try:
        cluster.load(*images)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def namespace(cluster) -> Iterator[Namespace]:
    """A namespace of the test's own. Its pods are gone afterwards."""
    made = Namespace(cluster.api(), f"test-{secrets.token_hex(4)}")
    made.create()
    yield made
    made.delete()
    wait_for(lambda: not made.pods(), "end of the test's pods")


@pytest.fixture
def shared_volume(tmp_path) -> Path:
    """A folder of this machine that pods of all nodes can mount, at the same path (hostPath), and
    that every user can write. `Namespace.claim` makes a claim of it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def tfapp(cluster, namespace, tmp_path) -> Iterator[OnKubernetes]:
    """`tfapp` on the cluster; afterwards there is none of its applications."""
    tfapp = OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)
    yield tfapp
    for name in tfapp.names():
        tfapp.ok("destroy", name, "--force")
