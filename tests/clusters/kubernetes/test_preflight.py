"""What is found before anything is made, and by `tfapp doctor`, on a real cluster."""

import os
import shutil
import time

import pytest
from kubernetes_cluster.images import PYTHON

from tests.clusters.kubernetes.namespace import wait_for
from tests.compiler.packages import options
from tests.engines.kubernetes.golden import MINIMAL
from tfapp.compiler.compile import compile_application
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.doctor import examine
from tfapp.engines.kubernetes.pod.failures import rule
from tfapp.engines.kubernetes.pods import Places
from tfapp.engines.kubernetes.preflight import check
from tfapp.engines.kubernetes.rights import NEEDED, OF_ACCOUNTS
from tfapp.errors import ForbiddenError
from tfapp.package.load import load_package

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def client(cluster, namespace):
    return KubernetesCluster.open({"KUBECONFIG": str(cluster.kubeconfig)}, namespace.name)


@pytest.fixture
def problems(tmp_path):
    """Checks a package of one worker, with `config` in its appConfig and `resources` of the worker,
    lines of YAML, and `size` bytes of files; returns "FILE:LINE CODE MESSAGE" of each problem."""

    def of(
        client: KubernetesCluster, *config: str, resources: tuple[str, ...] = (), size=0, **more
    ) -> list[str]:
        folder = tmp_path / "package"
        shutil.copytree(MINIMAL, folder, dirs_exist_ok=True)
        (folder / "files" / "large").write_bytes(os.urandom(size))
        lines = [f"site.global.docker.image: {PYTHON}", *config]
        settings = "\n".join(f"  {line}" for line in lines)
        (folder / "appConfig-default.yaml").write_text(f"global:\n{settings}\n")
        asked = ["yarn.role.priority: 1", "yarn.component.instances: 2"]
        asked += resources or ("yarn.memory: 100",)
        text = "\n".join(f"    {line}" for line in asked)
        (folder / "resources-default.yaml").write_text(f"components:\n  worker:\n{text}\n")
        loaded = load_package(folder)
        assert loaded.package is not None, "\n".join(map(str, loaded.problems))
        chosen = options(**more)
        compiled = compile_application(loaded.package, chosen)
        found = check(client, compiled, Places.of(chosen, client.namespace))
        return [
            f"{p.position.file.rpartition('/')[2]}:{p.position.line} {p.code} {p.message}"
            for p in found
        ]

    return of


CHECKPOINTS = "site.global.user.checkpoint.prefix: /data"


def test_a_package_that_fits_has_no_problems_and_makes_nothing(client, problems):
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    client.create({**kind, "spec": claim})
    before = len(client.list("ConfigMap"))
    begun = time.monotonic()
    assert problems(client, CHECKPOINTS, "site.global.kubernetes.volumes: pvc:data:/data") == []
    print(f"{time.monotonic() - begun:.2f} s to compile and check")
    assert len(client.list("ConfigMap")) == before
    assert client.list("Pod") == []


def test_what_is_named_and_not_there(client, namespace, problems):
    found = problems(
        client,
        CHECKPOINTS,
        'site.global.kubernetes.volumes: "pvc:gone:/data, configMap:none:/etc/none"',
        "site.global.kubernetes.priority.class: urgent",
        "site.global.kubernetes.service.account: trainer",
        "site.global.kubernetes.image.pull.secrets: login",
        queue="research",
    )
    config, where = "appConfig-default.yaml", f"in namespace {namespace.name!r}"
    no = "kubernetes there is no"
    assert sorted(found) == sorted(
        [
            f"{config}:4 {no} PersistentVolumeClaim 'gone' {where}",
            f"{config}:4 {no} ConfigMap 'none' {where}",
            f"{config}:5 {no} PriorityClass 'urgent'",
            f"{config}:6 {no} ServiceAccount 'trainer' {where}",
            f"{config}:7 {no} Secret 'login' {where}",
            f"--queue research:0 queue there is no LocalQueue 'research' {where}",
        ]
    )


def test_what_fits_on_no_node_is_for_the_scheduler_to_say(client, problems):
    """Nodes can be added."""
    sizes = ("yarn.memory: 90000000", "yarn.gpus: 3")
    volume = "site.global.kubernetes.volumes: nfs:192.0.2.1:/x:/data"
    selector = "site.global.kubernetes.node.selector: disk=fast"
    assert problems(client, CHECKPOINTS, volume, selector, resources=sizes) == []


def test_what_admission_and_quotas_do_not_take(client, namespace, problems):
    volume = "site.global.kubernetes.volumes: nfs:192.0.2.1:/x:/data"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    client.create({**quota, "spec": {"hard": {"requests.cpu": "1", "pods": "9"}}})
    wait_for(lambda: client.get("ResourceQuota", "small").get("status"), "status of the quota")
    assert problems(client, CHECKPOINTS, volume) == []  # each pod alone is within it
    two = "site.global.kubernetes.cpu.request: 2"
    (found,) = problems(client, CHECKPOINTS, volume, two)
    assert "the cluster does not take pods of worker: " in found
    assert "exceeded quota: small" in found
    client.delete("ResourceQuota", "small")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.patch("Namespace", namespace.name, {"metadata": {"labels": labels}})
    # NFS is none of the volumes that "restricted" knows.
    ephemeral = "site.global.kubernetes.volumes: emptyDir:/data"
    config = ("site.global.user.checkpoint.prefix: s3://bucket/x", ephemeral)
    found = problems(client, *config)
    assert len(found) == 2  # the master's pod and the worker's
    assert all("violates PodSecurity" in each and "runAsNonRoot" in each for each in found)
    assert problems(client, *config, "site.global.kubernetes.user: 1000") == []


def grant(namespace, user: str, rules: list[dict]) -> None:
    name = {"metadata": {"name": user}}
    namespace.add(f"{RBAC}/v1", "roles", {**name, "rules": rules})
    to = {"kind": "User", "name": user, "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "Role", "name": user}
    namespace.add(f"{RBAC}/v1", "rolebindings", {**name, "subjects": [to], "roleRef": role})


def rules_of(*rights) -> list[dict]:
    return [
        {"apiGroups": [each.group], "resources": [each.resource], "verbs": list(each.verbs)}
        for each in rights
    ]


def test_rights_are_checked_and_told_at_once(cluster, namespace, problems):
    path = cluster.add_user("somebody")
    somebody = KubernetesCluster.open({"KUBECONFIG": str(path)}, namespace.name)
    volume = "site.global.kubernetes.volumes: nfs:192.0.2.1:/x:/data"
    with pytest.raises(ForbiddenError) as raised:
        problems(somebody, CHECKPOINTS, volume)
    everything = (*NEEDED, *OF_ACCOUNTS)
    assert all(f"{', '.join(r.verbs)} {r.resource}" in raised.value.message for r in everything)
    assert all(rule(r.group, r.resource, r.verbs) in raised.value.hint for r in everything)

    grant(namespace, "somebody", rules_of(*everything))

    def granted() -> bool:
        return somebody.allowed("create", "rolebindings", group=RBAC)

    wait_for(granted, "the rights")
    # Who makes a Role needs what is in it.
    found = problems(somebody, CHECKPOINTS, volume)
    assert [each.partition(": ")[0] for each in found] == [
        "resources-default.yaml:1 kubernetes the cluster does not take the application's Role"
    ]
    assert "is attempting to grant RBAC permissions not currently held" in found[0]
    with pytest.raises(ForbiddenError, match="': create poddisruptionbudgets$"):
        problems(somebody, CHECKPOINTS, volume, "site.global.kubernetes.min.available: 1")
    with pytest.raises(ForbiddenError, match="get, create pods/portforward") as raised:
        problems(somebody, CHECKPOINTS, volume, size=2_000_000)
    assert raised.value.hint.startswith("Ask its owner for a Role in namespace ")
    assert raised.value.hint.endswith(" in the image: together, files of 1 MB need no port.")


def test_the_doctor(cluster, namespace, tmp_path):
    def findings(path, name=namespace.name, context="", clock=time.time):
        env = {"KUBECONFIG": str(path)}
        return list(examine(tmp_path, env, name, context, clock))

    found = findings(cluster.kubeconfig)
    assert [(each.subject, each.level) for each in found[2:]] == [
        ("library", OK),
        ("configuration", OK),
        ("api", OK),
        ("clocks", OK),
        ("namespace", OK),
        ("rights", OK),
        ("accounts", OK),
        ("ports", OK),
        ("files", OK),
        ("pods", OK),
        ("nodes", OK),
        ("storage", WARNING),
    ]
    texts = {each.subject: each.text for each in found}
    assert texts["api"].startswith("v1.37.2, https://127.0.0.1:")
    assert texts["nodes"].startswith("2 of 2 take pods, together ")
    assert texts["nodes"].endswith(", 2 nvidia.com/gpu")
    late = findings(cluster.kubeconfig, clock=lambda: time.time() + 3600)
    (clock,) = (each for each in late if each.subject == "clocks")
    assert clock.level == PROBLEM
    assert clock.text.endswith(" s behind this one")

    path = cluster.add_user("patient")
    levels = {each.subject: each.level for each in findings(path)[2:]}
    assert levels == {
        "library": OK,
        "configuration": OK,
        "api": OK,
        "clocks": OK,
        "namespace": OK,
        "rights": PROBLEM,
        "accounts": WARNING,
        "ports": WARNING,
        "files": WARNING,
        "pods": OK,
        "nodes": OK,
        "storage": OK,
    }
    missing = findings(cluster.kubeconfig, "no-such-namespace")[-1]
    assert (missing.subject, missing.level) == ("namespace", PROBLEM)
    wrong = findings(cluster.kubeconfig, context="none")[-1]
    assert (wrong.subject, wrong.text) == (
        "configuration",
        f"there is no context 'none' in {cluster.kubeconfig}",
    )
