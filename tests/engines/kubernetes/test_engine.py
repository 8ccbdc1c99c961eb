import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clusters.kubernetes.packaged import packaged
from tests.engines.applications import FOREVER, compiled, service
from tests.engines.kubernetes.api_server import ApiServer
from tests.engines.kubernetes.pod.test_record import RUNNING
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes import run as run_module
from tfapp.engines.kubernetes import submission
from tfapp.engines.kubernetes.engine import KubernetesEngine
from tfapp.engines.kubernetes.pod import names, record
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.record import RunState
from tfapp.errors import (
    ExistsError,
    ForbiddenError,
    InUseError,
    UnavailableError,
    UnknownApplicationError,
    UnreachableError,
)
from tfapp.master.ending import Ending

ALL = [
    "ConfigMap/tfapp-train",
    "Job/tfapp-train-1",
    "Role/tfapp-train",
    "RoleBinding/tfapp-train",
    "Secret/tfapp-train",
    "Secret/tfapp-train-1",
    "ServiceAccount/tfapp-train",
]
NOW = 1000.0


@pytest.fixture
def server():
    return ApiServer()


@pytest.fixture
def cluster(server):
    """Its client, which does not wait for it."""
    cluster = Api(server, server.namespace)
    cluster.context, cluster.patience = "here", 0.0
    return cluster


@pytest.fixture
def clock():
    return [NOW]


@pytest.fixture
def engine(tmp_path, cluster, clock):
    engine = KubernetesEngine(tmp_path / "home", {}, clock=lambda: clock[0])
    engine.__dict__["_cluster"] = cluster
    return engine


@pytest.fixture
def small(engine):
    return packaged(compiled("train", master=FOREVER, w=service()), engine)


def tell(server, key, value):
    server.objects["ConfigMap/tfapp-train"]["data"][key] = record.text(value)


def end(server, run=1):
    tell(server, record.ending_key(run), Ending("SUCCEEDED", "done", RUNNING))
    server.objects[f"Job/tfapp-train-{run}"]["status"] = {
        "conditions": [{"type": "Complete", "status": "True"}]
    }


def test_all_objects_go_with_the_record(engine, server, small):
    created = engine.create("train", small)
    assert (created.live, created.status.state, created.run) == (True, "ACCEPTED", 1)
    assert server.names() == ALL
    with pytest.raises(ExistsError):
        engine.create("train", small)
    assert server.names() == ALL
    with pytest.raises(InUseError):
        engine.destroy("train")
    end(server)
    engine.destroy("train")
    assert server.names() == []
    with pytest.raises(UnknownApplicationError) as raised:
        engine.find("train")
    assert raised.value.message == "there is no application train in the namespace team"


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Role", "Job"])
@pytest.mark.parametrize("error", [ForbiddenError("may not"), KeyboardInterrupt()])
def test_a_submission_that_fails_leaves_nothing(engine, server, small, kind, error):
    server.refuses[kind] = error
    with pytest.raises(type(error)):
        engine.create("train", small)
    assert server.names() == []


@pytest.mark.parametrize("kind", ["Secret", "Job"])
def test_a_start_that_fails_leaves_the_runs_before(engine, server, small, kind):
    engine.create("train", small)
    end(server)
    before = engine.find("train")
    server.refuses[kind] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        engine.start("train")
    assert server.names() == ALL
    assert engine.find("train") == before
    server.refuses.clear()
    assert engine.start("train").run == 2
    with pytest.raises(InUseError):
        engine.start("train")


def test_the_status_is_the_records(engine, server, small):
    engine.create("train", small)
    tell(server, record.state_key(1), RunState("pod", "10.1.1.1:5"))
    tell(server, record.status_key(1), RUNNING)
    assert engine.find("train").status == RUNNING
    assert engine.list() == (engine.find("train"),)
    end(server)
    (last,) = engine.follow("train")
    assert (last.live, last.status) == (False, RUNNING)


def test_a_master_that_died_is_buried_once(engine, server, small):
    engine.create("train", small)
    tell(server, record.status_key(1), RUNNING)
    metadata = {"name": "left", "labels": names.run_labels("train", 1)}
    server.put("Pod/left", {"metadata": metadata, "status": {"phase": "Running"}})
    server.objects["Job/tfapp-train-1"]["status"] = {
        "conditions": [{"type": "Failed", "status": "True"}]
    }
    found = engine.find("train")
    assert found.status.verdict.summary == (
        "The application master was lost: its pod was deleted. "
        "All pods of the application are ended."
    )
    assert server.names() == ALL  # without the pod
    data = server.objects["ConfigMap/tfapp-train"]["data"]
    assert record.status_key(1) not in data
    assert engine.find("train") == found


def pod(server, name, phase="Running", component="w"):
    labels = {**names.run_labels("train", 1), names.COMPONENT: component}
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-11-23T05:00:00Z"}
    server.put(f"Pod/{name}", {"metadata": metadata, "status": {"phase": phase}})


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("queue", ["", "team"])
def test_a_job_that_is_suspended(engine, server, small, begun, queue):
    """Is no ending. In a queue, before anything has run, it is ACCEPTED."""
    engine.create("train", small)
    job = server.objects["Job/tfapp-train-1"]
    job["spec"]["suspend"] = True
    job["metadata"]["labels"] |= {names.QUEUE_LABEL: queue} if queue else {}
    if begun:
        tell(server, record.state_key(1), RunState("m", "10.1.1.1:5"))
        tell(server, record.status_key(1), RUNNING)
    pod(server, "left")  # of a master that was killed
    found = engine.find("train")
    assert (found.live, found.status.state) == (True, "SUSPENDED" if begun else "ACCEPTED")
    why = "its Job tfapp-train-1 is suspended (spec.suspend)"
    why = "waiting for room in Kueue's queue team: its Job is suspended" if queue else why
    assert found.waits == why
    assert engine.list() == (found,)
    assert "Pod/left" not in server.objects
    for refused in (engine.start, engine.destroy):
        with pytest.raises(InUseError) as raised:
            refused("train")
        assert raised.value.message == f"train is suspended: {why}"
    job["spec"]["suspend"] = False
    assert engine.find("train").status == (RUNNING if begun else found.status)
    job["spec"]["suspend"] = True
    stopped = engine.stop("train", "Stopped by ann.")
    verdict = stopped.status.verdict
    assert (stopped.live, verdict.state, verdict.summary) == (False, "KILLED", "Stopped by ann.")
    assert [name for name in server.names() if name not in ALL] == []
    assert engine.start("train").run == 2


def test_a_master_that_lives_ends_its_pods_itself(engine, server, small):
    engine.create("train", small)
    server.objects["Job/tfapp-train-1"]["spec"]["suspend"] = True
    pod(server, "master", component=names.MASTER_COMPONENT)
    pod(server, "worker")
    engine.find("train")
    assert {"Pod/master", "Pod/worker"} <= server.objects.keys()


def test_the_master_learns_of_a_stop_before_its_pod_goes(
    engine, server, cluster, small, monkeypatch
):
    """And other pods are not deleted before: it would replace them."""
    engine.create("train", small)
    pod(server, "master", component=names.MASTER_COMPONENT)
    pod(server, "worker")
    gone = []

    def delete(kind, name, foreground=False, grace=None):
        data = server.objects["ConfigMap/tfapp-train"]["data"]
        gone.append((name, data.get(record.stop_key(1))))
        server.objects.pop(f"{kind}/{name}", None)

    monkeypatch.setattr(cluster, "delete", delete)
    engine.stop("train", "Stopped by ann.")
    told = "Stopped by ann."
    assert gone == [("tfapp-train-1", told), ("master", told), ("worker", told)]


def test_a_stop_that_did_not_come_to_its_end(engine, server, small):
    engine.create("train", small)
    server.objects["ConfigMap/tfapp-train"]["data"][record.stop_key(1)] = "Stopped by ann."
    server.drop("Job/tfapp-train-1")
    verdict = engine.find("train").status.verdict
    assert (verdict.state, verdict.summary) == ("KILLED", "Stopped by ann.")


@pytest.mark.parametrize("command", ["stop", "start"])
def test_pods_of_a_run_that_has_an_ending(engine, server, small, monkeypatch, command):
    """They should not be there, whatever the record says."""
    monkeypatch.setattr(run_module, "EXIT_LIMIT", 0.0)
    engine.create("train", small)
    end(server)
    pod(server, "lives")
    pod(server, "over", "Succeeded")
    engine.stop("train", "") if command == "stop" else engine.start("train")
    assert [name for name in server.names() if name.startswith("Pod/")] == ["Pod/over"]


def test_the_files_of_a_resumed_run_come_from_here(engine, server, small, monkeypatch):
    engine.create("train", small)
    end(server)
    brought = []
    monkeypatch.setattr(submission.Supply, "bring", lambda self: brought.append(self._run.number))
    for state in (RunState("m", "", "h:1", ("d",)), RunState("m", "", "h:1", ("d",), 2)):
        tell(server, record.state_key(1), state)
        engine._bring(engine._run("train"))
    assert brought == [1]


def test_a_run_that_a_command_is_about_to_make(engine, server, small, clock):
    engine.create("train", small)
    server.drop("Job/tfapp-train-1")
    assert engine.find("train").live
    clock[0] += 121
    verdict = engine.find("train").status.verdict
    assert "the command that was about to start it died" in verdict.summary


def masters_pod(server, **status):
    labels = {**names.run_labels("train", 1), "batch.kubernetes.io/job-name": "tfapp-train-1"}
    metadata = {"name": "m", "labels": labels, "creationTimestamp": "2026-11-23T05:00:00Z"}
    status = {"phase": "Pending", **status}
    server.put("Pod/m", {"metadata": metadata, "status": status, "spec": {}})


def unscheduled(reason, message):
    named = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [named]}


NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "mine:1: not found"}}
NO_NODE = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
NO_QUOTA = 'pods "tfapp-train-1-x" is forbidden: exceeded quota: small'
MASTER_WAITS = {
    "image": (
        {"containerStatuses": [{"name": "tfapp", "image": "mine:1", "state": NO_IMAGE}]},
        "waiting for the image mine:1: ErrImagePull: mine:1: not found",
        ("it had a node", "gang.timeout", 600),
    ),
    "node": (
        unscheduled("Unschedulable", NO_NODE),
        f"waiting for a node: {NO_NODE}",
        ("it was asked for", "queue.timeout", 1800),
    ),
}


@pytest.mark.parametrize("what", MASTER_WAITS)
def test_a_master_that_does_not_begin_has_the_time_of_all_instances(
    engine, server, small, clock, what
):
    status, words, (since, key, limit) = MASTER_WAITS[what]
    engine.create("train", small)
    masters_pod(server, **status)
    if what == "image":
        server.objects["Pod/m"]["spec"]["nodeName"] = "node1"
    clock[0] += limit - 1
    found = engine.find("train")
    assert (found.live, found.waits) == (True, words)
    job = server.objects["Job/tfapp-train-1"]
    clock[0] += 1
    job["status"] = {"startTime": "1970-01-01T00:16:45Z"}  # it was in a queue: NOW and 5 s
    assert engine.find("train").live
    clock[0] += 5
    (last,) = engine.follow("train")
    assert (last.live, last.status.verdict.exit_code) == (False, 67)
    assert last.status.verdict.summary == (
        f"Timed out: the application master was not there {limit:g} s after {since}: it "
        f"was {words.rstrip('.')}. The limit is site.global.{key}."
    )
    assert "Job/tfapp-train-1" not in server.names()
    assert "Pod/m" not in server.names()


def test_a_master_that_a_queue_or_a_quota_holds_back_has_no_deadline(engine, server, small, clock):
    engine.create("train", small)
    event = {"type": "Warning", "reason": "FailedCreate", "message": NO_QUOTA}
    server.put("Event/e", {"metadata": {"name": "e"}, **event})
    clock[0] += 10 * small.job.limits.gang
    found = engine.find("train")
    words = f"waiting for its container: FailedCreate: {NO_QUOTA}"
    assert (found.live, found.waits) == (True, words)
    masters_pod(server, **unscheduled("SchedulingGated", "blocked"))
    clock[0] += 10 * small.job.limits.gang
    assert engine.find("train").live


def test_a_stop_before_there_is_a_master(engine, server, small):
    engine.create("train", small)
    stopped = engine.stop("train", "enough")
    assert (stopped.live, stopped.status.verdict.summary) == (False, "enough")
    assert "Job/tfapp-train-1" not in server.names()
    assert engine.stop("train", "again") == stopped


SERVES = RunState("m", "10.1.1.1:5")
FAILED_JOB = {"conditions": [{"type": "Failed", "status": "True"}]}
LOST_MASTERS = {
    "lives": (SERVES, "Running", {}, "m"),
    "is gone": (SERVES, "", {}, "n"),
    "has ended": (SERVES, "Failed", {}, "n"),
    "was the last one": (SERVES, "Failed", FAILED_JOB, "m"),
    "does not serve yet": (RunState("m", attempt=2), "Running", {}, "n"),
    "is the first one": (RunState("m"), "Running", {}, ""),
    "waits for files": (RunState("m", "", "h:1", ("d",), 2), "Running", {}, ""),
}


@pytest.mark.parametrize("how", LOST_MASTERS)
def test_a_command_waits_for_the_next_master(engine, server, small, monkeypatch, how):
    """Where there is one to come: `stop` lets it end the programs with their grace."""
    state, phase, job, expected = LOST_MASTERS[how]
    engine.create("train", small)
    tell(server, record.state_key(1), state)
    server.objects["Job/tfapp-train-1"]["status"] = job
    if phase:
        pod(server, "m", phase, names.MASTER_COMPONENT)

    def happens(look, timeout, every):
        assert not look()
        tell(server, record.state_key(1), RunState("n", "10.1.1.2:5", attempt=2))
        return look()

    monkeypatch.setattr(run_module, "happens", happens)
    monkeypatch.setattr(run_module.Forwards, "to", lambda self, pod, address: pod)
    with contextlib.nullcontext() if expected else pytest.raises(UnreachableError):
        assert engine._run("train").address().address == expected


def test_a_follower_goes_on_asking_while_the_api_is_away(
    engine, server, cluster, small, monkeypatch
):
    engine.create("train", small)
    monkeypatch.setattr("tfapp.engines.known.OUTAGE_EVERY", 0.0)
    following = engine.follow("train")

    def watch(kind, name, timeout, away):
        yield "ADDED", cluster.get(kind, name)
        server.away = True
        away("the API is away")

    cluster.watch = watch
    assert next(following).status.state == "ACCEPTED"
    assert next(following).waits == "the API is away; tfapp goes on asking"
    server.away = False
    end(server)
    assert [a.live for a in following] == [False]


def test_a_file_that_no_secret_holds_has_to_be_here(engine, server, small, tmp_path):
    engine.create("train", small)
    end(server)
    path = tmp_path / "home" / "cache" / "large.zip"
    wanted = {"0" * 64: path.name}
    server.objects["ConfigMap/tfapp-train"]["data"][submission.LARGE] = json.dumps(wanted)
    with pytest.raises(UnavailableError) as raised:
        engine.start("train")
    assert raised.value.message == (
        "large.zip, which train ships to its containers, is not on this machine"
    )
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"other content")
    with pytest.raises(UnavailableError):
        engine.start("train")
    assert server.names() == ALL


def test_files_of_one_name_are_told_apart(engine, tmp_path):
    """Two components have archives that are called env.tgz, in different folders."""
    paths = [tmp_path / folder / "env.tgz" for folder in ("cpu", "gpu")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    parts = {path.parent.name: service(files={"python": f"file://{path}"}) for path in paths}
    definition = Definition.of("train", compiled("train", master=FOREVER, **parts))
    digests = {submission.sha256(path): path.name for path in paths}
    found = SimpleNamespace(name="train", data={submission.LARGE: json.dumps(digests)})
    large = engine._submission._large_files(found, definition)
    assert sorted(file.path for file in large) == paths


def test_the_oldest_runs_are_forgotten_in_time(engine, server, small):
    engine.create("train", small)
    end(server)
    assert engine.start("train").run == 2
    end(server, 2)
    data = server.objects["ConfigMap/tfapp-train"]["data"]
    data["definition"] = data["definition"] + " " * submission.RECORD_LIMIT
    assert engine.start("train").run == 3
    data = server.objects["ConfigMap/tfapp-train"]["data"]
    assert record.run_numbers(data) == [2, 3]


def test_destroy_forgets_pods_on_nodes_that_are_lost(engine, server, cluster, small, monkeypatch):
    engine.create("train", small)
    end(server)
    monkeypatch.setattr(submission, "FORGET_AFTER", 0.0)
    metadata = {"name": "stuck", "labels": names.run_labels("train", 1)}
    server.put("Pod/stuck", {"metadata": metadata, "status": {"phase": "Running"}})
    delete = cluster.delete

    def held_back(kind, name, foreground=False, grace=None):
        if kind == "Pod" and grace == 0:
            cluster.delete = delete
            return delete(kind, name) and delete("ConfigMap", "tfapp-train")
        server.objects["ConfigMap/tfapp-train"]["metadata"]["deletionTimestamp"] = "now"
        with pytest.raises(UnknownApplicationError):
            engine.find("train")
        assert engine.list() == ()
        return True

    cluster.delete = held_back
    engine.destroy("train")
    assert server.names() == []


def test_damaged_records_are_listed(engine, server, small):
    engine.create("train", small)
    server.objects["ConfigMap/tfapp-train"]["data"][record.run_key(1)] = "{"
    (found,) = engine.list()
    assert found.status.state == "DAMAGED" and "ConfigMap tfapp-train" in found.waits
    engine.destroy("train")
    assert server.names() == []


def test_files_that_an_application_uses_are_known_here(engine, small, tmp_path):
    engine.create("train", small)
    (definition,) = Path(tmp_path).glob("home/kubernetes/applications/*/definition.json")
    assert json.loads(definition.read_text())["name"] == "train"
