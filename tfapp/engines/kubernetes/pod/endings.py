"""The end of a pod's main container, or why it has not started, from the pod object. For the pods
of instances, for that of the master, and for those of tfapp's own. Pure.

The fields and their values: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfapp.contract.exit import REQUEUED
from tfapp.contract.names import CANNOT_START, GRANTED, NODES, QUEUE
from tfapp.engines.kubernetes.pod.names import (
    CONTAINER,
    GROUP_COUNT,
    GROUP_LABEL,
    MANAGED,
    QUEUE_LABEL,
)
from tfapp.master.launcher import Ended

Pod = Mapping[str, Any]

OVER = ("Succeeded", "Failed")  # phases
_LOST = ("DeletionByTaintManager", "DeletionByPodGC")
# status.reason of pods that a kubelet ends as its machine goes down.
_NODE_DOWN = ("NodeLost", "NodeShutdown", "Shutdown", "Terminated")
# The condition of a pod that Kueue ends, and the end of its reason where the pod was not ready in
# time: that may be the pod's own fault.
_TERMINATION, _NOT_READY = "TerminationTarget", "DueToPodsReadyTimeout"
_DEADLINE = "DeadlineExceeded"  # also when this engine ends a pod
_ENDED = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")  # conditions of a Job
# `waiting.reason` of a container.
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_SOURCE = re.compile(r"(?:[0-9.]+|\[[0-9a-f:]+\]):[0-9]+->")  # of a connection, in Go's errors
# `terminated.reason` of a container that never ran, and its exit code then.
_NOT_STARTED = ("StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError")


def ended(
    pod: Pod, deleted: bool = False, killed: bool = False, began: bool = True
) -> Ended | None:
    """The end of the pod's main container; None while it may run. `deleted`: the pod was deleted.
    `killed`: its master has killed it. `began`: its script has started; the end of its log, which
    may be the program's, is then left out.

    After that no process of it runs, except perhaps on a lost node, and of a pod that was deleted
    without waiting for its node: see `is_told`.
    """
    status = pod.get("status", {})
    # It gets no node any more, and stays until Kueue has noticed.
    never_runs = status.get("phase") == "Pending" and not pod.get("spec", {}).get("nodeName")
    deleted = deleted or (never_runs and is_deleted(pod))
    disruption = _condition(status, "DisruptionTarget")
    if not killed and disruption.get("reason") in _LOST:
        return Ended(None, _lost(pod, disruption), "node-lost")
    if not deleted and status.get("phase") not in OVER:
        return None
    main = _main_end(pod)
    if main is not None and (main.get("reason") == "OOMKilled" or main.get("exitCode") == 0):
        return of_main(pod)
    if killed:
        return Ended(None, "it was ended by its master")
    outside = _from_outside(pod, deleted and main is None)
    if outside is not None:
        return outside
    if status.get("reason") == _DEADLINE:
        return Ended(None, "the deadline of its pod was over (activeDeadlineSeconds)")
    if main is not None:
        return _exit(main, began)
    return _without_main(status)


def of_main(pod: Pod, began: bool = True) -> Ended:
    """The end of a main container that ended by itself."""
    main = _main_end(pod) or {}
    if main.get("exitCode") == 0:
        return Ended(0)
    if main.get("reason") == "OOMKilled":
        return Ended(main["exitCode"], f"OOMKilled, exit code {main['exitCode']}", "memory")
    return _exit(main, began)


def master_memory(pod: Pod) -> str:
    """Why the master in a pod was killed for its memory, and the key to change."""
    containers = pod.get("spec", {}).get("containers", [{}])
    limit = containers[0].get("resources", {}).get("limits", {}).get("memory", "")
    words = f"it was killed because it needed more memory than its limit {limit}".rstrip()
    return f"{words}: yarn.memory of slider-appmaster"


def is_told(pod: Pod) -> bool:
    """Whether its node has told that its main container has ended, or will never begin."""
    return _main_end(pod) is not None or pod.get("status", {}).get("phase") in OVER


def main_runs(pod: Pod) -> bool:
    """Whether the main container has started and not ended."""
    return any(c["name"] == CONTAINER and "running" in _state(c) for c in _containers(pod))


def outlived(pod: Pod) -> bool:
    """Whether the main container has ended while others of the pod run."""
    others = (c for c in _containers(pod) if c["name"] != CONTAINER)
    return _main_end(pod) is not None and any("running" in _state(c) for c in others)


def own_end(pod: Pod) -> str:
    """Why this pod, that of the master, is ended: "its pod was evicted (...)"; "" if unknown."""
    found = _from_outside(pod)
    return "" if found is None else found.message


def last_lines(pod: Pod) -> str:
    """The end of the log of a main container that has ended and has failed."""
    return str((_main_end(pod) or {}).get("message", "")).rstrip("\n")


def has_ended(job: Mapping[str, Any] | None) -> bool:
    """Whether the Job of a master that was created has no running pod any more, and gets none."""
    return job is None or any(
        c["type"] in _ENDED and c["status"] == "True"
        for c in job.get("status", {}).get("conditions", ())
    )


def is_suspended(job: Mapping[str, Any] | None) -> bool:
    """Whether the Job has no pod now, and may get one later."""
    return job is not None and bool(job.get("spec", {}).get("suspend")) and not has_ended(job)


def failures_left(job: Mapping[str, Any]) -> int:
    """How many more pods of its may fail before the Job does."""
    limit, status = job.get("spec", {}).get("backoffLimit", 0), job.get("status", {})
    return int(limit) - int(status.get("failed", 0))


def waits(pod: Pod) -> str:
    """Why the main container has not started, in the words of the scheduler or the registry; "" if
    unknown."""
    if is_gated(pod):
        return _gated(pod)
    for condition in _unscheduled(pod):
        return f"waiting for a node: {condition.get('message') or condition.get('reason')}"
    for image, state in _waiting(pod):
        reason, message = state.get("reason", ""), state.get("message", "")
        if reason in _NO_IMAGE:
            return f"waiting for the image {image}: {_of_a_pull(reason, message)}".rstrip(": ")
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return f"waiting for its container: {reason}: {message}".rstrip(": ")
    return ""


def held_by(pod: Pod) -> str:
    """Who has yet to give the pod a node, or that it has one: a kind of `contract.names`; "" while
    the scheduler has not looked at it."""
    if pod.get("spec", {}).get("nodeName"):
        return GRANTED
    if is_gated(pod):
        return QUEUE
    return NODES if any(_unscheduled(pod)) else ""


def _gated(pod: Pod, why: str = "") -> str:
    """Who holds a pod back, and its queue. `why`: the queue's words."""
    gates = ", ".join(gate["name"] for gate in pod.get("spec", {}).get("schedulingGates", ()))
    queue = pod.get("metadata", {}).get("labels", {}).get(QUEUE_LABEL)
    count = pod.get("metadata", {}).get("annotations", {}).get(GROUP_COUNT)
    room = f"room for {count} pods" if count else "room"
    whose = f"{room} in Kueue's queue {queue}" if queue else "its admission"
    return f"waiting for {whose}: {why or f'scheduling gate {gates}'}"


def is_deleted(pod: Pod) -> bool:
    """Whether it is marked for deletion."""
    return "deletionTimestamp" in pod.get("metadata", {})


def is_requeued(pod: Pod) -> bool:
    """Whether Kueue has evicted it. It was deleted then, or will be at once."""
    return bool(_condition(pod.get("status", {}), _TERMINATION))


def is_forgotten(pod: Pod) -> bool:
    """Whether Kueue holds the pod back, and will not admit it: its group was over when it came."""
    metadata = pod.get("metadata", {})
    managed = MANAGED in metadata.get("labels", {}) and MANAGED not in metadata.get(
        "finalizers", ()
    )
    return managed and is_gated(pod)


def is_gated(pod: Pod) -> bool:
    """Whether a queue or another controller holds the pod back from the scheduler."""
    return any(c.get("reason") == "SchedulingGated" for c in _unscheduled(pod))


def told_by_events(events: Iterable[Mapping[str, Any]]) -> str:
    """The same, from the events of a pod that has a node but no reason in its status."""
    telling = (e for e in events if e.get("type") != "Warning" or _hinders(e.get("reason", "")))
    newest = max(telling, key=_when, default=None)
    if newest is None:
        return ""
    reason, message = newest.get("reason", ""), newest.get("message", "")
    if newest.get("type") == "Warning":
        return f"waiting for its container: {reason}: {message}".rstrip(": ")
    if reason == "Pulling":
        return message[:1].lower() + message[1:]
    return ""


def told_by_queue(pod: Pod, events: Iterable[Mapping[str, Any]]) -> str:
    """Why Kueue holds a pod back, from the events of its workloads; "" if they do not tell."""
    metadata = pod["metadata"]
    group = metadata["labels"].get(GROUP_LABEL)

    def of_it(event: Mapping[str, Any]) -> bool:
        about = event.get("involvedObject", {})
        name = about.get("name", "")
        mine = name == group if group else name.startswith(f"pod-{metadata['name']}-")
        return bool(mine and about.get("kind") == "Workload" and event.get("reason") == "Pending")

    newest = max(filter(of_it, events), key=_when, default={})
    return _gated(pod, newest["message"]) if newest.get("message") else ""


# ---- in parts --------------------------------------------------------------------------------
def _unscheduled(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """The condition of a pod that has no node."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield condition


def _containers(pod: Pod) -> list[Mapping[str, Any]]:
    return list(pod.get("status", {}).get("containerStatuses", ()))


def _state(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(container.get("state", {}))


def _main_end(pod: Pod) -> Mapping[str, Any] | None:
    """The `terminated` state of the main container; None if there is none."""
    found = (_state(c).get("terminated") for c in _containers(pod) if c["name"] == CONTAINER)
    return next(found, None)


def _from_outside(pod: Pod, deleted: bool = False) -> Ended | None:
    """The end of a pod that did not end by itself."""
    status = pod.get("status", {})
    disruption = _condition(status, "DisruptionTarget")
    if disruption.get("reason") in _LOST:
        return Ended(None, _lost(pod, disruption), "node-lost")
    if status.get("reason") in _NODE_DOWN:
        return Ended(None, _lost(pod, status), "node-lost")
    evicted = _condition(status, _TERMINATION)
    if evicted:
        late = evicted.get("reason", "").endswith(_NOT_READY)
        message = evicted.get("message") or evicted.get("reason", "")
        told = f"its pod was evicted by Kueue ({message.rstrip('. ')})"
        return Ended(None, told, "preempted" if late else REQUEUED)
    if disruption or status.get("reason") == "Evicted":
        return Ended(None, _disrupted(disruption, status), "preempted")
    if deleted or is_deleted(pod):
        return Ended(None, "its pod was deleted", "preempted")
    return None


def _exit(main: Mapping[str, Any], began: bool) -> Ended:
    """The end of a main container that ended without outside influence."""
    code, words = main.get("exitCode"), _last_line(main.get("message", ""))
    if main.get("reason") in _NOT_STARTED:
        return Ended(code, f"its container does not start: {words or main['reason']}", "start")
    if words.startswith(CANNOT_START):
        return Ended(code, words[len(CANNOT_START) :], "start")
    if words and not began:
        return Ended(code, f"exit code {code}: {words}")
    return Ended(code, f"exit code {code}")


def _without_main(status: Mapping[str, Any]) -> Ended:
    """The end of a pod that failed before its main container started."""
    for container in status.get("initContainerStatuses", ()):
        end = container.get("state", {}).get("terminated")
        if end and end.get("exitCode"):
            said = f"its init container {container['name']} ended with exit code {end['exitCode']}"
            words = _last_line(end.get("message", ""))
            return Ended(end["exitCode"], f"{said}: {words}" if words else said, "start")
    reason, message = status.get("reason", ""), status.get("message", "")
    if not reason and status.get("phase") == "Succeeded":
        return Ended(0)
    # A node that does not take it: "OutOfmemory", "NodeAffinity". Another one may.
    return Ended(None, f"its node did not take it: {reason}: {message}".rstrip(": "), "preempted")


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of this type, where it holds."""
    for condition in status.get("conditions", ()):
        if condition["type"] == kind and condition["status"] == "True":
            return dict(condition)
    return {}


def _disrupted(disruption: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    verbs = {"PreemptionByScheduler": "preempted by the scheduler"}
    said = f"its pod was {verbs.get(disruption.get('reason', ''), 'evicted')}"
    message = status.get("message") or disruption.get("message") or disruption.get("reason", "")
    return f"{said} ({message.rstrip('. ')})" if message else said


def _lost(pod: Pod, said: Mapping[str, Any]) -> str:
    node = pod.get("spec", {}).get("nodeName") or "its node"
    return f"{node} is lost ({said.get('message') or said.get('reason')})"


def _waiting(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(image, state) of each waiting container, init containers first."""
    status = pod.get("status", {})
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(key, ()):
            waiting = container.get("state", {}).get("waiting")
            if waiting:
                yield container.get("image", ""), waiting


def _of_a_pull(reason: str, message: str) -> str:
    """The registry's message, normalised: it must not change between two attempts
    (ImagePullBackOff), nor with the local port of an attempt."""
    _, tried, words = message.partition("ErrImagePull: ")
    if reason == "ImagePullBackOff" and tried:
        reason, message = "ErrImagePull", words
    return f"{reason}: {_SOURCE.sub('', message)}"


def _hinders(reason: str) -> bool:
    """Whether the reason of a warning can prevent the start of a container: "FailedMount", but not
    "MissingClusterDNS"."""
    return reason.startswith("Failed") or reason in ("NetworkNotReady", "BackOff", "InspectFailed")


def _when(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return next((time for time in times if time), "")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(CANNOT_START)]
    return (marked or lines or [""])[-1]
