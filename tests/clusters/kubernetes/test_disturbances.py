"""Evictions and preemption; pods that go after their time; commands in a pod."""

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from kubernetes_cluster.api import ApiError

import tfapp as package
from tests.clusters.kubernetes import pod_images
from tests.clusters.kubernetes.command import FRUGAL
from tests.clusters.kubernetes.namespace import Namespace, wait_for
from tests.clusters.yarn import programs
from tests.end_to_end.command_line import known_of, processes
from tests.end_to_end.test_saving import IN_STEP
from tests.end_to_end.trainings import RUNNER

HALF = "14 GiB"  # more than half of what a node has: one such pod fits


def test_workers_are_evicted_and_preempted(tfapp, namespace):
    """Both are charged to the infrastructure, and the numbers are taken again. While one is evicted
    the other is not, as one has to stay: nothing else than evictions asks for that. At last the
    master is evicted, and another one goes on with the same programs."""
    flags = ("-w", 2, "--resopt", "yarn.memory", HALF)
    budget = ("--option", "site.global.kubernetes.min.available", 1)
    tfapp.run(tfapp.program(programs.GOES_ON), "moved", *flags, *budget)
    pods = tfapp.pods("moved")
    assert {tfapp.node(pods[worker]) for worker in ("worker-0", "worker-1")} == {1, 2}
    wait_for(lambda: evictable(namespace, "moved") == 1, "the budget")
    evict(namespace, pods["worker-1"])
    with pytest.raises(ApiError, match="^429: .*disruption budget"):
        evict(namespace, pods["worker-0"])
    tfapp.forms("moved", 2)
    assert "its pod was evicted" in tfapp.asks("diagnostics", "moved")
    important = f"{namespace.name}-important"
    group = "/apis/scheduling.k8s.io/v1/priorityclasses"
    namespace.api.call("POST", group, {"metadata": {"name": important}, "value": 1000})
    try:
        needs = {"requests": {"memory": HALF.replace(" GiB", "Gi")}}
        namespace.run(
            "important",
            "import time; time.sleep(600)",
            container={"resources": needs},
            priorityClassName=important,
        )
        wait_for(
            lambda: "preempted by the scheduler" in tfapp.asks("diagnostics", "moved"),
            "preemption",
        )
        namespace.api.call("DELETE", f"{namespace.path}/pods/important?gracePeriodSeconds=0")
        tfapp.forms("moved", 3)
    finally:
        namespace.api.call("DELETE", f"{group}/{important}")
    status = tfapp.status("moved")["status"]
    assert (status["restarts"], status["losses"]) == (0, 2)
    evict(namespace, tfapp.pods("moved")[""])
    said = "the application's master was lost and is back; the programs went on"
    wait_for(lambda: said in tfapp.asks("diagnostics", "moved"), "another master")
    status = tfapp.status("moved")["status"]
    assert (status["generation"], status["restarts"], status["losses"]) == (3, 0, 2)
    tfapp.ok("stop", "moved")
    tfapp.left()
    assert what_kubectl_shows(namespace, "moved") == "KILLED"


def evictable(namespace: Namespace, name: str) -> int:
    """So many pods of an application may be evicted now."""
    path = f"/apis/policy/v1/namespaces/{namespace.name}/poddisruptionbudgets/tfapp-{name}"
    return namespace.api.call("GET", path).get("status", {}).get("disruptionsAllowed", 0)


def kill_runner(pod: dict[str, Any]) -> None:
    """As a node does that is half broken."""
    host = b"\0HOSTNAME=%s\0" % pod["metadata"]["name"].encode()
    found = []
    for pid in processes():
        environ, command, _ = known_of(pid)
        if host in b"\0" + environ and RUNNER.encode() in command:
            found.append(pid)
    (runner,) = found
    os.kill(runner, signal.SIGKILL)


def what_kubectl_shows(namespace: Namespace, name: str) -> str:
    """The state of the record, for `kubectl wait`; the Events of the Job are its history: it formed
    three times, pods were lost, and it was stopped."""
    found = namespace.api.call("GET", f"{namespace.path}/events")["items"]
    events = [each for each in found if each.get("reportingComponent") == "tfapp/master"]
    assert {each["involvedObject"]["name"] for each in events} == {f"tfapp-{name}-1"}
    reasons = [each["reason"] for each in events]
    assert (reasons.count("Formed"), reasons.count("Killed")) == (3, 1), reasons
    lost = [each["message"] for each in events if each["reason"] == "InstanceFailed"]
    assert any("its pod was evicted" in message for message in lost), lost
    record = namespace.api.call("GET", f"{namespace.path}/configmaps/tfapp-{name}")
    return record["data"]["state"]


def evict(namespace: Namespace, pod: dict[str, Any]) -> None:
    """As `kubectl drain` does."""
    name = pod["metadata"]["name"]
    metadata = {"name": name, "namespace": namespace.name}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    namespace.api.call("POST", f"{namespace.path}/pods/{name}/eviction", body)


def with_tfapp(folder: Path, program: str) -> str:
    """The text of a program that finds tfapp, in a folder that pods see."""
    return f"import sys\nsys.path.insert(0, {str(library(folder))!r})\n{program}"


def library(folder: Path) -> Path:
    """A folder that has tfapp."""
    shutil.copytree(Path(package.__file__).parent, folder / "library" / "tfapp")
    return folder / "library"


@pytest.mark.weekly
def test_all_save_before_a_pod_is_evicted_and_a_bad_node_is_avoided(tfapp, namespace):
    """No step is lost. The pod that follows two losses on a node is on the other one."""
    prefix = ("--option", "site.global.user.checkpoint.prefix", tfapp.work / "checkpoints")
    tfapp.run(tfapp.program(with_tfapp(tfapp.work, IN_STEP)), "kept", "-w", 2, *prefix)
    saves = "the programs take part"
    wait_for(lambda: tfapp.status("kept")["status"]["stop_grace"] > 30, saves)
    evict(namespace, tfapp.pods("kept")["worker-1"])
    tfapp.forms("kept", 2)
    told = tfapp.asks("diagnostics", "kept")
    (step,) = re.findall(r"worker/0, worker/1 have saved at step (\d+) before the stop", told)
    assert told.index("have saved") < told.index("its pod was evicted")

    def begun() -> bool:
        logs = (tfapp.asks("logs", "kept", f"worker/{index}") for index in range(2))
        return all(f"goes on at step {step}\n" in log for log in logs)

    wait_for(begun, f"both go on at step {step}")
    losses: list[str] = []
    while not losses or losses.count(losses[-1]) < 2:
        pod = tfapp.pods("kept")["worker-1"]
        losses.append(pod["spec"]["nodeName"])
        kill_runner(pod)
        tfapp.forms("kept", 2 + len(losses))
    spec = tfapp.pods("kept")["worker-1"]["spec"]
    (preferred,) = spec["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    (field,) = preferred["preference"]["matchFields"]
    assert (field["operator"], field["values"]) == ("NotIn", [losses[-1]])
    assert spec["nodeName"] != losses[-1]
    tfapp.ok("stop", "kept")
    tfapp.left()


def test_pods_go_after_their_time_and_the_verdict_stays(tfapp, tmp_path):
    script = tfapp.program(programs.HELLO)
    ttl = ("--option", "site.global.kubernetes.ttl", "1 s")
    done = tfapp("run", script, "-w", 1, "--name", "brief", *FRUGAL, *ttl)
    assert done.code == 0, done.err
    wait_for(lambda: tfapp.pods("brief") == {}, "end of the pods")
    elsewhere = tfapp.elsewhere(tmp_path / "elsewhere")
    for there in (tfapp, elsewhere):
        status = there.status("brief")
        assert (status["live"], status["status"]["state"]) == (False, "SUCCEEDED")
        assert there("wait", "brief").code == 0
    assert "TF_CONFIG is" in tfapp.asks("logs", "brief")  # as they were followed here
    assert "TF_CONFIG is" not in elsewhere("logs", "brief").out


INSIDE = """
import os, subprocess, sys
tfapp = [sys.executable, "-m", "tfapp"]
script, flags = sys.argv[1], sys.argv[2:]
run = ["run", script, "-w", "1", "--name", "inside", *flags, "--detach", "--wait", "300"]
flex = ["flex", "inside", "--component", "worker", "2"]
for words in (run, flex, ["stop", "inside"], ["destroy", "inside"]):
    subprocess.run([*tfapp, *words], check=True)
"""


def test_commands_in_a_pod(tfapp, namespace, tmp_path):
    """By the service account of the pod, in its namespace, and straight to the master's address."""
    namespace.api.call("POST", f"{namespace.path}/serviceaccounts", {"metadata": {"name": "me"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    subject = {"kind": "ServiceAccount", "name": "me", "namespace": namespace.name}
    body = {"metadata": {"name": "me"}, "roleRef": role, "subjects": [subject]}
    namespace.add("rbac.authorization.k8s.io/v1", "rolebindings", body)
    script = tfapp.program(programs.GOES_ON)
    (tmp_path / "inside.py").write_text(INSIDE)
    [(place, _)] = pod_images.FOLDERS.items()
    checkout = Path(package.__file__).parents[1]
    variables = {"TFAPP_ENGINE": "kubernetes", "TFAPP_HOME": "/tmp/home", "USER": "somebody"}
    variables["PYTHONPATH"] = f"{checkout}:{place}"
    folders = (checkout, tmp_path)
    namespace.run(
        "me",
        "",
        serviceAccountName="me",
        container={
            "command": ["python3", str(tmp_path / "inside.py"), str(script), *FRUGAL],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "volumeMounts": [
                {"name": f"v{n}", "mountPath": str(path)} for n, path in enumerate(folders)
            ],
        },
        volumes=[{"name": f"v{n}", "hostPath": {"path": str(p)}} for n, p in enumerate(folders)],
    )
    ended = namespace.wait("me", "Succeeded", "Failed")
    assert ended["status"]["phase"] == "Succeeded", namespace.log("me")
    assert tfapp.names() == []
