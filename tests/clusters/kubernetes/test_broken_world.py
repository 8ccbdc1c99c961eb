"""What is broken around an application: one clear sentence, the right exit code, nothing left."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.kubernetes import pod_images
from tests.clusters.kubernetes.command import FRUGAL, OnKubernetes
from tests.clusters.kubernetes.namespace import Namespace
from tests.clusters.yarn import programs
from tests.end_to_end.command_line import Ended
from tests.waiting import wait

PLUGIN = {
    "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "sh",
        "args": ["-c", "echo 'your session is over: call corp-login' >&2; exit 1"],
    }
}


@pytest.fixture
def tfapp(cluster, namespace, tmp_path):
    return OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)


@pytest.fixture
def kubeconfig(cluster, tmp_path) -> Callable[[str, str, Any], dict[str, str]]:
    """The environment of who has another kubeconfig: `part` of its cluster or user replaced."""

    def of(kind: str, part: str, value: Any) -> dict[str, str]:
        found = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        [entry] = found[f"{kind}s"]
        entry[kind] = value if not part else {**entry[kind], part: value}
        path = tmp_path / f"kubeconfig-{kind}-{part}"
        path.write_text(yaml.safe_dump(found))
        return {"KUBECONFIG": str(path)}

    return of


def test_a_full_quota_is_waited_for(tfapp, namespace):
    """By the master, then by the workers, each for longer than all may take to be ready."""
    quotas = f"{namespace.path}/resourcequotas"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}}
    namespace.api.call("POST", quotas, {**quota, "spec": {"hard": {"pods": "1"}}})
    counted = f"{quotas}/pods"
    wait(lambda: namespace.api.call("GET", counted)["status"].get("hard"), "no quota", 60)
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeSelector": {"no": "such"}}
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": spec}
    namespace.api.call("POST", f"{namespace.path}/pods", other)
    gang = ("--option", "site.global.gang.timeout", "8 s")
    script = tfapp.program(programs.HELLO)
    tfapp.ok("run", script, "-w", 2, "--name", "app", *FRUGAL, *gang, "--detach")

    def shown() -> str:
        ended = tfapp("status", "app")
        return ended.out + ended.err

    now = {"spec": {"hard": {"pods": "3"}}}
    for state, call in (
        ("ACCEPTED", ("DELETE", f"{namespace.path}/pods/other")),
        ("FORMING", ("PATCH", counted, now, "application/merge-patch+json")),
    ):
        waits = re.compile(rf"^state +{state}$.*exceeded quota: pods", re.MULTILINE | re.DOTALL)
        wait(lambda waits=waits: waits.search(shown()), shown, 120)
        time.sleep(12)  # longer than the gang's time
        assert waits.search(shown()), shown()
        namespace.api.call(*call)
    assert tfapp("wait", "app").code == 0
    tfapp.ok("destroy", "app")


def test_applications_that_cannot_be(tfapp, namespace, kubeconfig, cluster):
    """Each is asked for, at the same time."""
    script = tfapp.program(programs.HELLO)
    gang = ("--option", "site.global.gang.timeout", "10 s")
    gang += ("--option", "site.global.queue.timeout", "10 s")

    nowhere = OnKubernetes(tfapp.work, tfapp.home, cluster, Namespace(namespace.api, "nowhere"))

    def run(name: str, *flags: object, **environ: str) -> Ended:
        return tfapp(
            "run", script, "-w", 1, "--name", name, *FRUGAL, *gang, *flags, environ=environ
        )

    def with_image(name: str, image: str) -> Ended:
        return run(name, "-i", image)

    with ThreadPoolExecutor(3) as pool:
        asked = {
            what: pool.submit(call, *words)
            for what, call, *words in (
                ("image", with_image, "image", "localhost:9/none:1"),
                ("python", with_image, "python", pod_images.SHELL),
                ("grpc", with_image, "grpc", pod_images.BARE),
            )
        }
        gpus = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}}
        gpus |= {"spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
        namespace.api.call("POST", f"{namespace.path}/resourcequotas", gpus)
        each = ("--rescompopt", "worker", "yarn.gpus", 1)
        asked["quota"] = pool.submit(run, "quota", "-w", 2, *each)
        size = ("--rescompopt", "worker", "yarn.memory", 90_000_000)
        asked["size"] = pool.submit(run, "size", *size)
        nodes = ("--option", "site.global.kubernetes.node.selector", "no=such")
        asked["node"] = pool.submit(run, "node", *nodes)
        server = kubeconfig("cluster", "server", "https://127.0.0.1:9")
        asked["server"] = pool.submit(run, "server", **server)
        asked["login"] = pool.submit(run, "login", **kubeconfig("user", "", PLUGIN))
        account = ("--option", "site.global.kubernetes.service.account", "ghost")
        asked["account"] = pool.submit(run, "account", *account)
        asked["context"] = pool.submit(run, "context", "--context", "other")
        missing, broken = tfapp.work / "missing", tfapp.work / "broken"
        broken.write_text("clusters: [")
        asked["no file"] = pool.submit(run, "file", KUBECONFIG=str(missing))
        asked["broken file"] = pool.submit(run, "file", KUBECONFIG=str(broken))
        asked["namespace"] = pool.submit(nowhere, "run", script, *FRUGAL)
        asked["list"] = pool.submit(nowhere, "list")
        asked["status"] = pool.submit(nowhere, "status", "x")
    done = {what: future.result() for what, future in asked.items()}

    def told(what: str, code: int, *words: str) -> None:
        ended = done[what]
        said = ended.out + ended.err
        assert ended.code == code, said
        assert [word for word in words if word not in said] == [], said

    told("image", 67, "waiting for the image localhost:9/none:1: ErrImagePull", "refused")
    told("python", 65, f"no Python interpreter python3 in the image {pod_images.SHELL}")
    told("grpc", 65, f"of the image {pod_images.BARE} lacks grpcio, protobuf")
    told("quota", 67, "waiting for room in the namespace's quota: ", "exceeded quota: gpus")
    told("size", 67, "worker/0 is waiting for a node: 0/2 nodes are available", "queue.timeout")
    told("node", 67, "the application master was not there", "waiting for a node: 0/2 nodes are")
    told("server", 53, "the Kubernetes API at https://127.0.0.1:9", "Connection refused")
    told("login", 53, "failed: exec: process returned 1. your session is over: call corp-login")
    told("account", 77, "there is no ServiceAccount 'ghost'")
    assert done["account"].err.count("there is no ServiceAccount") == 1
    told("context", 44, f"there is no context 'other' in {cluster.kubeconfig}")
    told("no file", 53, f"KUBECONFIG names {missing}, and there is no such file")
    told("broken file", 53, f"the kubeconfig file {broken} cannot be read")
    for what in ("namespace", "list", "status"):
        told(what, 44, "there is no namespace 'nowhere'", "kubectl create namespace nowhere")
    left = ["grpc", "image", "node", "python", "quota", "size"]
    assert sorted(tfapp.names()) == left
    tfapp.left()
    for name in left:
        tfapp.ok("destroy", name)
    assert tfapp.objects() == []
