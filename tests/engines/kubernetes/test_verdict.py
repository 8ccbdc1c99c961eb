import pytest

from tests.engines.kubernetes.pod.test_endings import ENDINGS
from tests.engines.kubernetes.pod.test_record import RUNNING
from tfapp.engines.kubernetes import verdict
from tfapp.engines.kubernetes.pod import endings
from tfapp.engines.kubernetes.verdict import Death

JOB = {"metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}


def pod(**status):
    own = status.pop("container", {})
    deleted = {"deletionTimestamp": "t"} if status.pop("deleted", False) else {}
    containers = [{"name": "tfapp", "state": own}] if own else []
    status = {"phase": "Failed", "containerStatuses": containers, **status}
    master = {"name": "tfapp", "resources": {"limits": {"memory": "512Mi"}}}
    spec = {"nodeName": "n2", "containers": [master]}
    return {"metadata": deleted, "spec": spec, "status": status}


def ended(code, **more):
    return pod(container={"terminated": {"exitCode": code, **more}})


def test_the_last_of_several_masters_is_lost():
    how = Death("its pod was deleted", "preempted")
    assert verdict.ending(how, RUNNING, 9.0, masters=3).status.verdict.summary == (
        "The application master was lost: its pod was deleted. All pods of the application are "
        "ended. It had 3 masters, and gets no more: site.global.master.attempts."
    )


DEATHS = [
    (None, pod(), Death("its Job was deleted")),
    ({"metadata": {"deletionTimestamp": "t"}}, pod(), Death("its Job was deleted")),
    (JOB, None, Death("its pod was deleted", "preempted")),
    (
        JOB,
        ended(137, reason="OOMKilled", message="last\n"),
        Death(
            "it was killed because it needed more memory than its limit 512Mi: "
            "yarn.memory of slider-appmaster",
            "memory",
            "last",
        ),
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
            'it could not start: its container does not start: exec: "sh": not found',
            "start",
            'exec: "sh": not found',
            'its container does not start: exec: "sh": not found',
        ),
    ),
    (
        JOB,
        ended(1, message="Traceback"),
        Death("it ended with exit code 1 and gave no verdict", "exit", "Traceback"),
    ),
]


@pytest.mark.parametrize(("job", "found", "how"), DEATHS)
def test_deaths(job, found, how):
    assert verdict.death(job, found) == how


OVER = [name for name, (_, known, end) in ENDINGS.items() if end and not known.get("killed")]


@pytest.mark.parametrize("name", OVER)
def test_the_pod_of_a_master_is_read_as_that_of_an_instance(name):
    shown, _, end = ENDINGS[name]
    found = verdict.death(JOB, shown)
    if end.code is None:
        assert found == Death(end.message, end.reason or "lost")
    else:
        assert found.reason == (end.reason or ("signal" if end.code > 128 else "exit"))


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
    assert endings.has_ended(job) is over


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
