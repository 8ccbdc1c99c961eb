"""Applications in a queue of the real Kueue. By hand: `bash .ci/run kueue`, because building it
takes minutes; in the ordinary tests it is played (tests/engines/kubernetes/played_kueue.py)."""

import os
import re
from collections.abc import Iterator

import pytest
from kubernetes_cluster.kueue import KUEUE
from kubernetes_cluster.programs import is_built

from tests.clusters.kubernetes.command import FRUGAL, seeing
from tests.clusters.kubernetes.namespace import wait_for
from tests.clusters.yarn import programs
from tests.lacking import lacking
from tfapp.engines.kubernetes.pod import names

pytestmark = pytest.mark.kueue

# Saves how far it is, and goes on from there.
COUNTS = """
import os, pathlib, time
saved = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"], "count")
saved.parent.mkdir(parents=True, exist_ok=True)
count = int(saved.read_text()) if saved.exists() else 0
print("begins at", count, flush=True)
while True:
    count += 1
    if os.environ["TFAPP_INDEX"] == "0":
        saved.with_suffix(".new").write_text(str(count))
        saved.with_suffix(".new").replace(saved)
    time.sleep(0.1)
"""
NOT_BUILT = "`python examples/kubernetes-cluster/cluster.py build --kueue` does that, in 7 minutes"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


@pytest.fixture(scope="module")
def kueue(cluster, cache) -> Iterator[None]:
    """It runs in the cluster."""
    if not is_built(cache, os.environ, KUEUE):
        lacking(f"Kueue is not built; {NOT_BUILT}")
    cluster.start_kueue()
    yield
    cluster.stop_kueue()


@pytest.fixture
def queue(kueue, cluster, namespace) -> str:
    """One with room for three pods."""
    cluster.add_queue(namespace.name, namespace.name, {**ROOM, "pods": "3"})
    return namespace.name


ROOM = {"cpu": "1000", "memory": "1000Gi"}


def workloads(tfapp) -> dict[str, dict]:
    """Of Kueue, by their names, those that are not finished."""
    found = tfapp.namespace.api.call("GET", WORKLOADS.format(tfapp.namespace.name))["items"]
    return {each["metadata"]["name"]: each for each in found if not holds(each, "Finished")}


def holds(workload, kind):
    conditions = workload.get("status", {}).get("conditions", ())
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def finalizers(tfapp):
    return [pod for pod in tfapp.namespace.pods() if pod["metadata"].get("finalizers")]


def gated(pod):
    return bool(pod["spec"].get("schedulingGates"))


def waiting(tfapp, name, count):
    """Whether its master runs, and all its `count` pods wait for the queue, as it says."""
    pods = tfapp.pods(name)
    if len(pods) != count + 1 or pods.get("", {}).get("status", {}).get("phase") != "Running":
        return False
    words = f"waiting for room for {count} pods in Kueue's queue {tfapp.namespace.name}"
    found = [i["preparing"] for i in tfapp.status(name)["status"]["instances"]]
    return all(gated(pod) for label, pod in pods.items() if label) and all(
        text and text.startswith(words) for text in found
    )


def begin(tfapp, name, queue, *flags):
    """Asks for an application, and waits for nothing."""
    script = tfapp.program(programs.GOES_ON)
    words = ("run", script, "--name", name, *FRUGAL, *seeing(tfapp.work), "--queue", queue)
    tfapp.ok(*words, *flags, "--detach")


def test_the_second_application_begins_when_the_first_has_ended(tfapp, queue):
    """Both fit alone. A pod in the place of a lost one, and one by flex, need no other quota or
    wait for it by themselves."""
    tfapp.run(tfapp.program(programs.GOES_ON), "first", "-w", 2, "--queue", queue)
    [group] = workloads(tfapp)
    pods = tfapp.pods("first")
    assert {pods[w]["metadata"]["labels"][names.GROUP_LABEL] for w in ("worker-0", "worker-1")} == {
        group
    }
    assert names.MANAGED not in pods[""]["metadata"]["labels"], "the master is nobody's"
    begin(tfapp, "second", queue, "-w", 2)
    wait_for(lambda: waiting(tfapp, "second", 2), "wait for the queue")
    tfapp.delete("pods", pods["worker-1"]["metadata"]["name"])
    tfapp.forms("first", 2)
    again = tfapp.pods("first")["worker-1"]["metadata"]["labels"]
    assert again[names.GROUP_LABEL] == group
    assert waiting(tfapp, "second", 2)
    tfapp.ok("stop", "first")
    tfapp.forms("second", 1)
    tfapp.ok("flex", "second", "--component", "worker", "+1")
    tfapp.forms("second", 2)
    assert len(tfapp.pods("second")) == 4
    tfapp.ok("stop", "second")
    wait_for(lambda: not workloads(tfapp), "end of all groups")
    wait_for(lambda: not finalizers(tfapp), "end of Kueue's part")
    for name in ("first", "second"):
        assert tfapp.status(name)["status"]["state"] == "KILLED"
        assert len(tfapp.pods(name)) >= 3, "the logs stay"


def test_an_application_that_is_evicted_goes_on_later(tfapp, namespace, queue):
    """For one of higher priority, as a whole, from its checkpoint; nothing is charged."""
    important = f"{namespace.name}-important"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    namespace.api.call("POST", classes, {"metadata": {"name": important}, "value": 1000})
    try:
        saves = ("--checkpoints", tfapp.work / "checkpoints")
        tfapp.run(tfapp.program(COUNTS), "usual", "-w", 3, "--queue", queue, *saves)
        option = ("--option", "site.global.kubernetes.priority.class", important)
        tfapp.run(tfapp.program(programs.GOES_ON), "urgent", "-w", 2, "--queue", queue, *option)
        wait_for(lambda: waiting(tfapp, "usual", 3), "wait of all of it")
        told = tfapp.asks("diagnostics", "usual")
        assert "its pod was evicted by Kueue (Preempted to accommodate a workload" in told, told
        tfapp.ok("stop", "urgent")
        tfapp.forms("usual", 2)
        status = tfapp.status("usual")["status"]
        assert (status["restarts"], status["losses"]) == (0, 0)
        begun = re.findall(r"^begins at (\d+)", tfapp.asks("logs", "usual", "worker/0"), re.M)
        assert int(begun[-1]) > 0, begun
        tfapp.ok("stop", "usual")
    finally:
        namespace.api.call("DELETE", f"{classes}/{important}")


def test_an_application_trains_with_what_the_queue_has(tfapp, queue):
    """Two of four are enough: they are admitted together, a third one alone."""
    least = ("--rescompopt", "worker", "yarn.component.instances.min", 2)
    wait = ("--option", "site.global.elastic.wait", "5 s")
    tfapp.run(tfapp.program(programs.GOES_ON), "elastic", "-w", 4, "--queue", queue, *least, *wait)
    wait_for(lambda: len([p for p in tfapp.pods("elastic").values() if gated(p)]) == 1, "the last")
    sizes = sorted(sum(s["count"] for s in w["spec"]["podSets"]) for w in workloads(tfapp).values())
    assert sizes == [1, 1, 2]
    tfapp.ok("stop", "elastic")
    wait_for(lambda: not workloads(tfapp), "end of all groups")


def test_who_waits_is_stopped_and_destroyed(tfapp, queue):
    """Kueue keeps pods that wait for it until it has noticed that they are deleted."""
    begin(tfapp, "large", queue, "-w", 4)
    wait_for(lambda: waiting(tfapp, "large", 4), "wait for the queue")
    words = "request (4) > maximum capacity (3)"
    wait_for(lambda: words in str(tfapp.instances("large")), "Kueue's words: it never fits")
    tfapp.ok("stop", "large")
    assert tfapp.status("large")["status"]["state"] == "KILLED"
    begin(tfapp, "other", queue, "-w", 4)
    wait_for(lambda: waiting(tfapp, "other", 4), "wait for the queue")
    begin(tfapp, "late", queue, "-w", 4, "--option", "site.global.queue.timeout", "5 s")
    verdict = tfapp.wait("late", 67)["verdict"]["summary"]
    assert f"Kueue's queue {queue}" in verdict, verdict
    for name in ("large", "other", "late"):
        tfapp.ok("destroy", name, "--force")
    wait_for(lambda: not tfapp.namespace.pods() and not workloads(tfapp), "end of all")


def test_nodes_are_lost(tfapp, queue):
    """One of two, with and without the master: the quota for its pods is not lost with it."""
    tfapp.run(tfapp.program(programs.GOES_ON), "lives", "-w", 3, "--queue", queue)
    master = tfapp.node(tfapp.pods("lives")[""])
    for generation, lost in ((2, 3 - master), (3, master)):
        tfapp.cluster.kill_node(lost)
        try:
            tfapp.forms("lives", generation)
        finally:
            tfapp.cluster.start_node(lost)
    tfapp.ok("stop", "lives")
    wait_for(lambda: not workloads(tfapp), "end of all groups")
