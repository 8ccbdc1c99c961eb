from __future__ import annotations

import pytest

from tests.engines.kubernetes.test_record import RUNNING
from tfapp.engines.kubernetes import verdict
from tfapp.engines.kubernetes.verdict import Death

JOB = {"metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}


def pod(**status):
    own = status.pop("container", {})
    deleted = {"deletionTimestamp": "t"} if status.pop("deleted", False) else {}
    containers = [{"name": "tfapp", "state": own}] if own else []
    status = {"phase": "Failed", "containerStatuses": containers, **status}
    return {"metadata": deleted, "spec": {"nodeName": "n2"}, "status": status}


def ended(code, **more):
    return pod(container={"terminated": {"exitCode": code, **more}})


def disrupted(reason, message):
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


DEATHS = [
    (None, pod(), Death("its Job was deleted")),
    ({"metadata": {"deletionTimestamp": "t"}}, pod(), Death("its Job was deleted")),
    (JOB, None, Death("its pod was deleted")),
    (
        JOB,
        pod(conditions=disrupted("DeletionByTaintManager", "Taint manager: deleting")),
        Death("its node n2 was lost: Taint manager: deleting", "node-lost"),
    ),
    (
        JOB,
        pod(conditions=disrupted("EvictionByEvictionAPI", "Eviction API: evicting.")),
        Death("its pod was evicted: Eviction API: evicting", "preempted"),
    ),
    (
        JOB,
        pod(reason="Evicted", message="The node was low on resource: memory."),
        Death(
            "its pod was evicted by its node n2: The node was low on resource: memory", "preempted"
        ),
    ),
    (
        JOB,
        ended(137, reason="OOMKilled", message="last\n"),
        Death("it was killed because it needed more memory than its limit", "memory", "last"),
    ),
    (JOB, ended(137), Death("it was killed by SIGKILL (9)", "signal")),
    (
        JOB,
        ended(78, message="tfapp: cannot start: there is no python3\n"),
        Death(
            "it could not start: there is no python3",
            "start",
            "tfapp: cannot start: there is no python3",
            "there is no python3",
        ),
    ),
    (
        JOB,
        ended(128, reason="StartError", message='exec: "sh": not found'),
        Death(
            'it could not start: exec: "sh": not found',
            "start",
            'exec: "sh": not found',
            'exec: "sh": not found',
        ),
    ),
    (
        JOB,
        ended(1, message="Traceback"),
        Death("it ended with exit code 1 and gave no verdict", "exit", "Traceback"),
    ),
    (JOB, {**ended(137), "metadata": {"deletionTimestamp": "t"}}, Death("its pod was deleted")),
]


@pytest.mark.parametrize(("job", "found", "how"), DEATHS)
def test_deaths(job, found, how):
    assert verdict.death(job, found) == how


def test_a_death_is_a_verdict():
    said = verdict.ending(Death("its node n2 was lost", "node-lost"), RUNNING, 11.0)
    assert said.status.verdict.summary == (
        "The application master was lost: its node n2 was lost. "
        "All pods of the application are ended."
    )
    assert (said.final_status, said.status.state, said.status.updated) == ("FAILED", "FAILED", 11.0)
    assert [i.state for i in said.status.instances] == ["LOST"]
    said = verdict.ending(Death("x", "start", "", "there is no python3"), RUNNING, 11.0)
    assert said.diagnostics == (
        "Failed: its coordinator could not be started: there is no python3."
    )
    said = verdict.ending(Death("x"), RUNNING, 11.0, "KILLED", "enough")
    assert (said.status.verdict.exit_code, said.status.state) == (66, "KILLED")


@pytest.mark.parametrize(
    ("job", "over"),
    [
        (None, True),
        ({"status": {}}, False),
        (JOB, True),
        ({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, False),
    ],
)
def test_the_end_of_a_job(job, over):
    assert verdict.has_ended(job) is over


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


UNSCHEDULED = [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
]
WARNING = {"type": "Warning", "reason": "FailedMount", "message": "secret not found"}
QUOTA = {"type": "Warning", "reason": "FailedCreate", "message": "exceeded quota: small"}
READY = {"type": "Ready", "status": "True"}
UNREADY = {"type": "Ready", "status": "False"}


@pytest.mark.parametrize(
    ("found", "events", "words"),
    [
        (None, (), ""),
        (None, (QUOTA,), "waiting for its container: FailedCreate: exceeded quota: small"),
        (pod(phase="Pending", conditions=UNSCHEDULED), (), "waiting for a node: 0/2 nodes"),
        (
            pod(phase="Pending", container=waiting("CreateContainerConfigError", "no such key")),
            (),
            "waiting for its container: CreateContainerConfigError: no such key",
        ),
        (pod(phase="Pending", container=waiting("ContainerCreating")), (), ""),
        (
            pod(phase="Pending", container=waiting("ContainerCreating")),
            (WARNING,),
            "waiting for its container: FailedMount: secret not found",
        ),
        (pod(phase="Running", container={"running": {}}, conditions=[READY]), (WARNING,), ""),
        (
            pod(phase="Running", container={"running": {}}, conditions=[UNREADY]),
            (),
            "its node n2 does not answer",
        ),
        (pod(phase="Running", container={"terminated": {}}, conditions=[UNREADY]), (), ""),
    ],
)
def test_what_a_master_waits_for(found, events, words):
    assert verdict.waiting(found, events) == words
