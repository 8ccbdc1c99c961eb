"""The verdict on a run whose master has died without one, and what a master waits for, from its Job
and its pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.contract.names import CANNOT_START, CANNOT_START_CODE, FAILED, KILLED, LOST
from tfapp.contract.status import ApplicationStatus, Cause, Verdict, conclude
from tfapp.engines.kubernetes.names import CONTAINER
from tfapp.engines.kubernetes.pod import endings
from tfapp.errors import ExitCode
from tfapp.frozen import frozen
from tfapp.master.ending import Ending, signal_name

# The reasons of a pod's condition DisruptionTarget, and of tfapp.
_DISRUPTIONS = {
    "DeletionByTaintManager": ("its node {node} was lost", "node-lost"),
    "DeletionByPodGC": ("its node {node} was lost", "node-lost"),
    "PreemptionByScheduler": ("its pod was preempted", "preempted"),
    "EvictionByEvictionAPI": ("its pod was evicted", "preempted"),
    "TerminationByKubelet": ("its pod was evicted by its node {node}", "preempted"),
}
_ENDED = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")  # conditions of a Job


@frozen
class Death:
    """The death of a master. `text`: such as "its pod was evicted: ..."."""

    text: str
    reason: str = "lost"  # see Exit
    last_lines: str = ""
    cannot_start: str = ""  # why nothing of it could start, if so


def has_ended(job: Mapping[str, Any] | None) -> bool:
    """Whether the Job of a master that was created has no running pod any more."""
    return job is None or any(
        c["type"] in _ENDED and c["status"] == "True"
        for c in job.get("status", {}).get("conditions", ())
    )


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether no container of the pod runs any more."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_being_deleted(item: Mapping[str, Any] | None) -> bool:
    """Whether an existing object has been marked for deletion."""
    return item is not None and "deletionTimestamp" in item["metadata"]


def death(job: Mapping[str, Any] | None, pod: Mapping[str, Any] | None) -> Death:
    """How the master with this Job and this pod died; None means that it does not exist any
    more."""
    if job is None or is_being_deleted(job):
        return Death("its Job was deleted")
    if pod is None:
        return Death("its pod was deleted")
    node = pod.get("spec", {}).get("nodeName", "")
    status = pod.get("status", {})
    for condition in status.get("conditions", ()):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            reason = condition.get("reason", "")
            words, kind = _DISRUPTIONS.get(reason, (f"its pod was ended ({reason})", "lost"))
            told = status.get("message") or condition.get("message", "")
            return Death(_sentence(words.format(node=node), told), kind)
    if status.get("reason") == "Evicted":
        words = f"its pod was evicted by its node {node}"
        return Death(_sentence(words, status.get("message", "")), "preempted")
    if status.get("reason") == "NodeLost":
        return Death(f"its node {node} was lost", "node-lost")
    ended = _terminated(status)
    if is_being_deleted(pod) and (ended is None or ended["exitCode"] in (0, 137, 143)):
        return Death("its pod was deleted")
    if ended is None:
        return Death(_sentence("its pod has ended", status.get("message", "")))
    return _ended(ended)


def _ended(ended: Mapping[str, Any]) -> Death:
    code, lines = ended["exitCode"], ended.get("message", "").rstrip("\n")
    if ended.get("reason") == "OOMKilled":
        return Death("it was killed because it needed more memory than its limit", "memory", lines)
    if code == CANNOT_START_CODE:
        said = (x[len(CANNOT_START) :] for x in lines.splitlines() if x.startswith(CANNOT_START))
        why = next(said, lines.rpartition("\n")[2] or "its log says why")
        return Death(f"it could not start: {why}", "start", lines, why)
    if code > 128:
        return Death(f"it was killed by {signal_name(code - 128)}", "signal", lines)
    if ended.get("reason") in ("StartError", "ContainerCannotRun"):
        why = lines or ended["reason"]
        return Death(f"it could not start: {why}", "start", lines, why)
    return Death(f"it ended with exit code {code} and gave no verdict", "exit", lines)


def ending(
    how: Death, last_known: ApplicationStatus, now: float, state: str = FAILED, message: str = ""
) -> Ending:
    """The ending of a run whose master has died. `state` KILLED: deliberately, because of
    `message`."""
    if state == KILLED:
        summary = f"{message.rstrip('.') or 'Stopped'}. Its master did not answer and was killed."
    elif how.cannot_start:
        summary = f"Failed: its coordinator could not be started: {how.cannot_start.rstrip('.')}."
    else:
        summary = (
            f"The application master was lost: {how.text.rstrip('.')}. "
            "All pods of the application are ended."
        )
    exit = Exit(None, None, how.reason, f"the application master was lost: {how.text}")
    cause = Cause("", last_known.generation, "", "", exit, how.last_lines)
    verdict = Verdict(state, int(ExitCode[state]), summary, cause)
    return Ending(state, summary, conclude(last_known, verdict, now, LOST))


def stopped_early(last_known: ApplicationStatus, message: str, now: float) -> Ending:
    """The ending of a run that was stopped before its master ran."""
    summary = message or "Stopped."
    verdict = Verdict(KILLED, int(ExitCode.KILLED), summary)
    return Ending(KILLED, summary, conclude(last_known, verdict, now, KILLED))


def never_came(waits: str, limit: float, last_known: ApplicationStatus, now: float) -> Ending:
    """The ending of a run whose master had no image for `limit` seconds. `waits`: the cluster's
    message."""
    text = f"the application master was not there {limit:g} s after it was asked for"
    summary = (
        f"Timed out: {text}: it was {waits.rstrip('.')}. The limit is site.global.gang.timeout."
    )
    cause = Cause("", last_known.generation, "", "", Exit(None, None, "deadline", text))
    verdict = Verdict(FAILED, int(ExitCode.TIMED_OUT), summary, cause)
    return Ending(FAILED, summary, conclude(last_known, verdict, now, KILLED))


def waiting(pod: Mapping[str, Any] | None, events: Iterable[Mapping[str, Any]] = ()) -> str:
    """What a pod waits for, in the words of the scheduler or the registry; "" if unknown. `events`:
    those of its Job if there is no pod, or its own."""
    if pod is None:
        return endings.told_by_events(list(events))
    found = silent_node(pod)
    if not found and pod.get("status", {}).get("phase") == "Pending":
        found = endings.waits(pod) or endings.told_by_events(list(events))
    return found


def silent_node(pod: Mapping[str, Any]) -> str:
    """A sentence if the pod's node does not answer: the control plane marks a pod with running
    containers unready when its node is silent. "" if it answers."""
    status = pod.get("status", {})
    unready = any(
        c["type"] == "Ready" and c["status"] == "False" for c in status.get("conditions", ())
    )
    running = all("running" in container.get("state", {}) for container in _containers(status))
    if status.get("phase") == "Running" and running and unready:
        return f"its node {pod['spec'].get('nodeName', '')} does not answer"
    return ""


def _containers(status: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(status.get("containerStatuses", ()))


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The end of the main container; if it has none, that of any other."""
    own = sorted(_containers(status), key=lambda c: c["name"] != CONTAINER)
    for container in (*own, *status.get("initContainerStatuses", ())):
        ended = container.get("state", {}).get("terminated")
        if ended and (container["name"] == CONTAINER or ended["exitCode"]):
            return ended
    return None


def _sentence(words: str, told: str) -> str:
    return f"{words}: {told.rstrip('.')}" if told else words
