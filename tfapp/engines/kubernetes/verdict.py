"""The verdict on a run whose master has died without one, and what a master waits for, from its Job
and its pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, KILLED, LOST, NODES, QUOTA
from tfapp.contract.status import ApplicationStatus, Cause, Verdict, conclude
from tfapp.engines.kubernetes.pod import endings
from tfapp.engines.kubernetes.pod.names import COMPONENT, MASTER_COMPONENT, QUEUE_LABEL
from tfapp.errors import ExitCode
from tfapp.frozen import frozen
from tfapp.master.ending import Ending, no_more, signal_name


@frozen
class Death:
    """The death of a master. `text`: such as "its pod was evicted: ..."."""

    text: str
    reason: str = "lost"  # see Exit
    last_lines: str = ""
    cannot_start: str = ""  # why nothing of it could start, if so


def suspension(job: Mapping[str, Any] | None) -> str:
    """What the master of a suspended Job waits for; "" if the Job is not suspended."""
    if job is None or not endings.is_suspended(job):
        return ""
    queue = job["metadata"].get("labels", {}).get(QUEUE_LABEL)
    if queue:
        return f"waiting for room in Kueue's queue {queue}: its Job is suspended"
    return f"its Job {job['metadata']['name']} is suspended (spec.suspend)"


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether no container of the pod runs any more."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_of_master(pod: Mapping[str, Any]) -> bool:
    """Whether it is the pod of a master."""
    return bool(pod["metadata"].get("labels", {}).get(COMPONENT) == MASTER_COMPONENT)


def is_being_deleted(item: Mapping[str, Any] | None) -> bool:
    """Whether an existing object has been marked for deletion."""
    return item is not None and "deletionTimestamp" in item["metadata"]


def is_lost(pod: Mapping[str, Any] | None) -> bool:
    """Whether the master in this pod, if there is one, has ended, is ended, or is on a node that
    does not answer."""
    return pod is None or is_over(pod) or is_being_deleted(pod) or silent_node(pod) != ""


def death(job: Mapping[str, Any] | None, pod: Mapping[str, Any] | None) -> Death:
    """How the master with this Job and this pod died; None means that it does not exist any
    more."""
    if job is None or is_being_deleted(job):
        return Death("its Job was deleted")
    ended = None if pod is None else endings.ended(pod, deleted=not is_over(pod))
    if pod is None or ended is None:
        return Death("its pod was deleted", "preempted")
    if ended.code is None:
        return Death(ended.message, ended.reason or "lost")
    lines = endings.last_lines(pod)
    if ended.reason == "memory":
        return Death(endings.master_memory(pod), "memory", lines)
    if ended.reason == "start":
        return Death(f"it could not start: {ended.message}", "start", lines, ended.message)
    if ended.code > 128:
        return Death(f"it was killed by {signal_name(ended.code - 128)}", "signal", lines)
    return Death(f"it ended with exit code {ended.code} and gave no verdict", "exit", lines)


def ending(
    how: Death,
    last_known: ApplicationStatus,
    now: float,
    state: str = FAILED,
    message: str = "",
    masters: int = 1,
) -> Ending:
    """The ending of a run whose last master, number `masters`, has died; the verdict that it has
    decided stands. `state` KILLED: deliberately, because of `message`."""
    if state == KILLED:
        summary = f"{message.rstrip('.') or 'Stopped'}. Its master did not answer and was killed."
    elif how.cannot_start:
        summary = f"Failed: its coordinator could not be started: {how.cannot_start.rstrip('.')}."
    else:
        summary = (
            f"The application master was lost: {how.text.rstrip('.')}. "
            f"All pods of the application are ended.{no_more(masters)}"
        )
    exit = Exit(None, None, how.reason, f"the application master was lost: {how.text}")
    cause = Cause("", last_known.generation, "", "", exit, how.last_lines)
    verdict = last_known.decided or Verdict(state, int(ExitCode[state]), summary, cause)
    return Ending(verdict.state, verdict.summary, conclude(last_known, verdict, now, LOST))


def stopped_early(last_known: ApplicationStatus, message: str, now: float) -> Ending:
    """The ending of a run that was stopped before its master ran."""
    summary = message or "Stopped."
    verdict = Verdict(KILLED, int(ExitCode.KILLED), summary)
    return Ending(KILLED, summary, conclude(last_known, verdict, now, KILLED))


def held_by(pod: Mapping[str, Any] | None, waits: str) -> str:
    """What a master waits for, a kind of `contract.names`. `waits`: the cluster's words, which are
    all there is of a quota: the API has no field for it."""
    if pod is None:
        return QUOTA if "exceeded quota" in waits else NODES
    return endings.held_by(pod) or NODES


def never_came(
    waits: str, limit: float, key: str, last_known: ApplicationStatus, now: float
) -> Ending:
    """The ending of a run whose master was held back, or had no image, for `limit` seconds, which
    site.global.`key` says. `waits`: the cluster's message."""
    since = "it was asked for" if key == "queue.timeout" else "it had a node"
    text = f"the application master was not there {limit:g} s after {since}"
    summary = f"Timed out: {text}: it was {waits.rstrip('.')}. The limit is site.global.{key}."
    cause = Cause("", last_known.generation, "", "", Exit(None, None, "deadline", text))
    verdict = Verdict(FAILED, int(ExitCode.TIMED_OUT), summary, cause)
    return Ending(FAILED, summary, conclude(last_known, verdict, now, KILLED))


def waiting(pod: Mapping[str, Any] | None, events: Iterable[Mapping[str, Any]] = ()) -> str:
    """What a pod waits for, in the words of the scheduler or the registry; "" if unknown. `events`:
    those of its Job if there is no pod, or its own."""
    if pod is None:
        return endings.told_by_events(events)
    found = silent_node(pod)
    if not found and pod.get("status", {}).get("phase") == "Pending":
        found = endings.waits(pod) or endings.told_by_events(events)
    return found


def silent_node(pod: Mapping[str, Any]) -> str:
    """A sentence if the pod's node does not answer: the control plane marks a pod with running
    containers unready when its node is silent. "" if it answers."""
    status = pod.get("status", {})
    unready = any(
        c["type"] == "Ready" and c["status"] == "False" for c in status.get("conditions", ())
    )
    containers = status.get("containerStatuses", ())
    running = all("running" in container.get("state", {}) for container in containers)
    if status.get("phase") == "Running" and running and unready:
        return f"its node {pod['spec'].get('nodeName', '')} does not answer"
    return ""
