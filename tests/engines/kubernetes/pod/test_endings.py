"""What a pod object says of its container: rows as a real cluster shows them."""

import pytest

from tfapp.engines.kubernetes.pod import endings
from tfapp.master.launcher import Ended

SCHEDULER = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def pod(phase="Running", conditions=(), deleted=False, node="node1", **status):
    """`conditions`: (type, status, reason, message)."""
    keys = ("type", "status", "reason", "message")
    metadata = {"name": "tfapp-a-1-w-0"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-23T05:31:58Z"
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [dict(zip(keys, condition)) for condition in conditions],
            **status,
        },
    }


def main(code, reason="Error", message="", **more):
    """containerStatuses with an ended main container."""
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"containerStatuses": [{"name": "tfapp", "state": {"terminated": end}}], **more}


def waiting(reason, message="", image="mine:1"):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "tfapp", "image": image, "state": state}]}


def disrupted(reason, message):
    return [("DisruptionTarget", "True", reason, message)]


TAINT = disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
GC = disrupted("DeletionByPodGC", "PodGC: node no longer exists")
EVICTION = disrupted("EvictionByEvictionAPI", "Eviction API: evicting")
PREEMPTION = disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate b")
PRESSURE = disrupted("TerminationByKubelet", "The node was low on resource: memory.")
SHUTDOWN = disrupted("TerminationByKubelet", "Pod was terminated in response to shutdown.")
KUEUE = "WorkloadEvictedDueToPreempted", "Preempted to accommodate a workload (UID: 7)"
LATE = "WorkloadEvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout ns/tfapp-a-1"
DEADLINE = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than"}
INIT = [{"name": "get", "state": {"terminated": {"exitCode": 2, "message": "a\nno route\n"}}}]

ENDINGS = {
    "it lives": (pod(), {}, None),
    "it waits": (pod("Pending", **waiting("ContainerCreating")), {}, None),
    "succeeded": (pod("Succeeded", **main(0, "Completed")), {}, Ended(0)),
    "evicted by Kueue": (
        pod("Failed", [("TerminationTarget", "True", *KUEUE)], deleted=True, **main(143)),
        {},
        Ended(None, f"its pod was evicted by Kueue ({KUEUE[1]})", "requeued"),
    ),
    "evicted by Kueue, because it was not ready in time": (
        pod("Failed", [("TerminationTarget", "True", *LATE)], deleted=True, **main(143)),
        {},
        Ended(None, f"its pod was evicted by Kueue ({LATE[1]})", "preempted"),
    ),
    "evicted by Kueue, and it still ends": (
        pod("Running", [("TerminationTarget", "True", *KUEUE)], deleted=True),
        {},
        None,
    ),
    "deleted while it waits, and kept by a finalizer": (
        pod("Pending", deleted=True, node=""),
        {},
        Ended(None, "its pod was deleted", "preempted"),
    ),
    "deleted while it starts": (pod("Pending", deleted=True), {}, None),
    "an exit code": (pod("Failed", **main(4, message="secret\n")), {}, Ended(4, "exit code 4")),
    "a signal": (pod("Failed", **main(137)), {}, Ended(137, "exit code 137")),
    "before its script, with the last line": (
        pod("Failed", **main(1, message="a\nsh: out of fish\n")),
        {"began": False},
        Ended(1, "exit code 1: sh: out of fish"),
    ),
    "an image without Python": (
        pod("Failed", **main(78, message="tfapp: cannot start: there is no python3\nbye\n")),
        {"began": False},
        Ended(78, "there is no python3", "start"),
    ),
    "no such command": (
        pod("Failed", **main(128, "StartError", 'exec: "/x": no such file')),
        {"began": False},
        Ended(128, 'its container does not start: exec: "/x": no such file', "start"),
    ),
    "memory": (
        pod("Failed", **main(137, "OOMKilled")),
        {},
        Ended(137, "OOMKilled, exit code 137", "memory"),
    ),
    "memory of a child": (
        pod("Failed", **main(7, "OOMKilled")),
        {},
        Ended(7, "OOMKilled, exit code 7", "memory"),
    ),
    "memory of a child that nobody missed": (
        pod("Succeeded", **main(0, "OOMKilled")),
        {},
        Ended(0),
    ),
    "ended by its master": (
        pod("Failed", **main(143), **DEADLINE),
        {"killed": True},
        Ended(None, "it was ended by its master"),
    ),
    "a deadline of a template": (
        pod("Failed", **main(143), **DEADLINE),
        {},
        Ended(None, "the deadline of its pod was over (activeDeadlineSeconds)"),
    ),
    "a node that is lost, while nobody knows": (
        pod("Running", TAINT),
        {},
        Ended(None, "node1 is lost (Taint manager: deleting due to NoExecute taint)", "node-lost"),
    ),
    "a node that is gone": (
        pod("Failed", GC),
        {"deleted": True},
        Ended(None, "node1 is lost (PodGC: node no longer exists)", "node-lost"),
    ),
    "a node that goes down": (
        pod("Failed", **main(143), reason="Terminated", message="imminent node shutdown"),
        {},
        Ended(None, "node1 is lost (imminent node shutdown)", "node-lost"),
    ),
    "a node that goes down, with the condition": (
        pod("Failed", SHUTDOWN, **main(143), reason="Terminated", message="imminent shutdown"),
        {},
        Ended(None, "node1 is lost (imminent shutdown)", "node-lost"),
    ),
    "evicted by a node that sets no condition": (
        pod("Failed", **main(143), reason="Evicted", message="The node was low on memory."),
        {},
        Ended(None, "its pod was evicted (The node was low on memory)", "preempted"),
    ),
    "evicted, while it ends": (pod("Running", EVICTION, deleted=True), {}, None),
    "evicted": (
        pod("Failed", EVICTION, deleted=True, **main(143)),
        {},
        Ended(None, "its pod was evicted (Eviction API: evicting)", "preempted"),
    ),
    "preempted": (
        pod("Running", PREEMPTION, deleted=True),
        {"deleted": True},
        Ended(
            None,
            "its pod was preempted by the scheduler (default-scheduler: preempting to accommodate "
            "b)",
            "preempted",
        ),
    ),
    "a node without memory": (
        pod("Failed", PRESSURE, reason="Evicted", message="The node was low on resource: memory. "),
        {},
        Ended(None, "its pod was evicted (The node was low on resource: memory)", "preempted"),
    ),
    "deleted, and its end was seen": (
        pod("Failed", deleted=True, **main(143)),
        {},
        Ended(None, "its pod was deleted", "preempted"),
    ),
    "deleted, and no end was seen": (
        pod(),
        {"deleted": True},
        Ended(None, "its pod was deleted", "preempted"),
    ),
    "gone after it succeeded": (
        pod("Running", **main(0, "Completed")),
        {"deleted": True},
        Ended(0),
    ),
    "a node that does not take it": (
        pod("Failed", reason="OutOfmemory", message="Node didn't have enough resource: memory"),
        {},
        Ended(
            None,
            "its node did not take it: OutOfmemory: Node didn't have enough resource: memory",
            "preempted",
        ),
    ),
    "an init container": (
        pod("Failed", initContainerStatuses=INIT),
        {"began": False},
        Ended(2, "its init container get ended with exit code 2: no route", "start"),
    ),
}


@pytest.mark.parametrize("row", ENDINGS)
def test_endings(row):
    shown, known, expected = ENDINGS[row]
    assert endings.ended(shown, **known) == expected


def gated(*gates, queue="", count=""):
    found = pod("Pending", [("PodScheduled", "False", "SchedulingGated", "blocked")], node="")
    found["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    if count:
        found["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": count}
    return found


WAITS = {
    "": pod("Pending", **waiting("ContainerCreating")),
    f"waiting for a node: {SCHEDULER}": pod(
        "Pending", [("PodScheduled", "False", "Unschedulable", SCHEDULER)], node=""
    ),
    "waiting for its admission: scheduling gate mine, yours": gated("mine", "yours"),
    "waiting for room in Kueue's queue team: scheduling gate mine": gated("mine", queue="team"),
    "waiting for room for 3 pods in Kueue's queue team: scheduling gate mine": gated(
        "mine", queue="team", count="3"
    ),
    "waiting for the image mine:1: ErrImagePull: 401 Unauthorized": pod(
        "Pending", **waiting("ErrImagePull", "401 Unauthorized")
    ),
    "waiting for the image mine:3: ErrImagePull: dial tcp: read udp 127.0.0.1:53: refused": pod(
        "Pending",
        **waiting(
            "ImagePullBackOff",
            'Back-off pulling image "mine:3": ErrImagePull: dial tcp: read udp '
            "127.0.0.1:48283->127.0.0.1:53: refused",
            image="mine:3",
        ),
    ),
    'waiting for its container: CreateContainerConfigError: secret "a" not found': pod(
        "Pending", **waiting("CreateContainerConfigError", 'secret "a" not found')
    ),
    "waiting for the image mine:2: ImagePullBackOff": pod(
        "Pending",
        initContainerStatuses=waiting("ImagePullBackOff", image="mine:2")["containerStatuses"],
        **waiting("PodInitializing"),
    ),
}


@pytest.mark.parametrize("words", WAITS)
def test_waits(words):
    assert endings.waits(WAITS[words]) == words
    kinds = {"a node": "nodes", "its admission": "queue", "room": "queue"}
    kind = next((k for what, k in kinds.items() if f"for {what}" in words), "granted")
    assert endings.held_by(WAITS[words]) == kind


def test_a_pod_at_which_the_scheduler_has_not_looked():
    assert endings.held_by(pod("Pending", node="")) == ""


def event(time, reason, message, kind="Normal"):
    return {"lastTimestamp": time, "reason": reason, "message": message, "type": kind}


EVENTS = {
    "": [
        event("2026-11-23T05:31:58Z", "Scheduled", "Successfully assigned"),
        event("2026-11-23T05:31:59Z", "MissingClusterDNS", "no ClusterDNS IP", "Warning"),
    ],
    'pulling image "mine:1"': [
        event("2026-11-23T05:32:00Z", "Pulling", 'Pulling image "mine:1"'),
        event("2026-11-23T05:31:58Z", "Scheduled", "Successfully assigned"),
    ],
    'waiting for its container: FailedMount: secret "a" not found': [
        event("2026-11-23T05:31:58Z", "Scheduled", "Successfully assigned"),
        {
            **event(None, "FailedMount", 'secret "a" not found', "Warning"),
            "eventTime": "2026-11-23T05:31:59.000001Z",
        },
    ],
}


@pytest.mark.parametrize("words", EVENTS)
def test_the_newest_event_tells(words):
    assert endings.told_by_events(EVENTS[words]) == words
    assert endings.told_by_events([]) == ""


def test_a_main_container_whose_neighbours_go_on():
    ended = main(3)["containerStatuses"][0]
    side = {"name": "side", "state": {"running": {}}}
    assert endings.outlived(pod(containerStatuses=[side, ended]))
    assert endings.of_main(pod(containerStatuses=[side, ended])) == Ended(3, "exit code 3")
    assert not endings.outlived(pod(containerStatuses=[ended]))
    runs = {"name": "tfapp", "state": {"running": {}}}
    assert not endings.outlived(pod(containerStatuses=[side, runs]))
    assert endings.main_runs(pod(containerStatuses=[side, runs]))
    assert not endings.main_runs(pod(containerStatuses=[side, ended]))


OWN = {
    "": pod(),
    "its pod was deleted": pod(deleted=True),
    "its pod was evicted (Eviction API: evicting)": pod("Running", EVICTION, deleted=True),
    "node1 is lost (PodGC: node no longer exists)": pod("Running", GC, deleted=True),
}


@pytest.mark.parametrize("words", OWN)
def test_why_the_masters_own_pod_ends(words):
    assert endings.own_end(OWN[words]) == words
