from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.engines.applications import FOREVER, compiled, service
from tests.engines.kubernetes.memory_cluster import MemoryCluster
from tests.engines.kubernetes.test_record import RUNNING
from tests.kubernetes.packaged import packaged
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes import names, record, submission
from tfapp.engines.kubernetes.engine import KubernetesEngine
from tfapp.engines.kubernetes.record import RunState
from tfapp.errors import (
    ExistsError,
    ForbiddenError,
    InUseError,
    UnavailableError,
    UnknownApplicationError,
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
def cluster():
    return MemoryCluster()


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


def tell(cluster, key, value):
    """What its master writes."""
    cluster.objects["ConfigMap", "tfapp-train"]["data"][key] = record.text(value)


def end(cluster, run=1):
    """It ends in order."""
    tell(cluster, record.ending_key(run), Ending("SUCCEEDED", "done", RUNNING))
    cluster.objects["Job", f"tfapp-train-{run}"]["status"] = {
        "conditions": [{"type": "Complete", "status": "True"}]
    }


def test_all_objects_go_with_the_record(engine, cluster, small):
    created = engine.create("train", small)
    assert (created.live, created.status.state, created.run) == (True, "ACCEPTED", 1)
    assert cluster.names() == ALL
    with pytest.raises(ExistsError):
        engine.create("train", small)
    assert cluster.names() == ALL
    with pytest.raises(InUseError):
        engine.destroy("train")
    end(cluster)
    engine.destroy("train")
    assert cluster.names() == []
    with pytest.raises(UnknownApplicationError) as raised:
        engine.find("train")
    assert raised.value.message == "there is no application train in the namespace team"


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Role", "Job"])
@pytest.mark.parametrize("error", [ForbiddenError("may not"), KeyboardInterrupt()])
def test_a_submission_that_fails_leaves_nothing(engine, cluster, small, kind, error):
    cluster.refuses[kind] = error
    with pytest.raises(type(error)):
        engine.create("train", small)
    assert cluster.names() == []


@pytest.mark.parametrize("kind", ["Secret", "Job"])
def test_a_start_that_fails_leaves_the_runs_before(engine, cluster, small, kind):
    engine.create("train", small)
    end(cluster)
    before = engine.find("train")
    cluster.refuses[kind] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        engine.start("train")
    assert cluster.names() == ALL
    assert engine.find("train") == before
    cluster.refuses.clear()
    assert engine.start("train").run == 2
    with pytest.raises(InUseError):
        engine.start("train")


def test_the_status_is_the_records(engine, cluster, small):
    engine.create("train", small)
    tell(cluster, record.state_key(1), RunState("pod", "10.1.1.1:5"))
    tell(cluster, record.status_key(1), RUNNING)
    assert engine.find("train").status == RUNNING
    assert engine.list() == (engine.find("train"),)
    end(cluster)
    (last,) = engine.follow("train")
    assert (last.live, last.status) == (False, RUNNING)


def test_a_master_that_died_is_buried_once(engine, cluster, small):
    engine.create("train", small)
    tell(cluster, record.status_key(1), RUNNING)
    metadata = {"name": "left", "labels": names.run_labels("train", 1)}
    left = {"metadata": metadata, "status": {"phase": "Running"}}
    cluster.create({"kind": "Pod", **left})
    cluster.objects["Job", "tfapp-train-1"]["status"] = {
        "conditions": [{"type": "Failed", "status": "True"}]
    }
    found = engine.find("train")
    assert found.status.verdict.summary == (
        "The application master was lost: its pod was deleted. "
        "All pods of the application are ended."
    )
    assert cluster.names() == ALL  # without the pod
    data = cluster.objects["ConfigMap", "tfapp-train"]["data"]
    assert record.status_key(1) not in data
    assert engine.find("train") == found


def test_a_run_that_a_command_is_about_to_make(engine, cluster, small, clock):
    engine.create("train", small)
    cluster.delete("Job", "tfapp-train-1")
    assert engine.find("train").live
    clock[0] += 121
    verdict = engine.find("train").status.verdict
    assert "the command that was about to start it died" in verdict.summary


def test_a_master_without_its_image_has_the_time_of_all_instances(engine, cluster, small, clock):
    limit = small.job.limits.gang
    engine.create("train", small)
    state = {"waiting": {"reason": "ErrImagePull", "message": "mine:1: not found"}}
    labels = {**names.run_labels("train", 1), "batch.kubernetes.io/job-name": "tfapp-train-1"}
    metadata = {"name": "m", "labels": labels, "creationTimestamp": "2026-11-23T05:00:00Z"}
    containers = [{"name": "tfapp", "image": "mine:1", "state": state}]
    status = {"phase": "Pending", "containerStatuses": containers}
    cluster.create({"kind": "Pod", "metadata": metadata, "status": status, "spec": {}})
    clock[0] += limit - 1
    found = engine.find("train")
    assert (found.live, found.waits) == (
        True,
        "waiting for the image mine:1: ErrImagePull: mine:1: not found",
    )
    clock[0] += 1
    (last,) = engine.follow("train")
    assert (last.live, last.status.verdict.exit_code) == (False, 67)
    assert last.status.verdict.summary == (
        f"Timed out: the application master was not there {limit:g} s after it was asked for: it "
        "was waiting for the image mine:1: ErrImagePull: mine:1: not found. The limit is "
        "site.global.gang.timeout."
    )
    assert "Job/tfapp-train-1" not in cluster.names()
    assert "Pod/m" not in cluster.names()


def test_a_stop_before_there_is_a_master(engine, cluster, small):
    engine.create("train", small)
    stopped = engine.stop("train", "enough")
    assert (stopped.live, stopped.status.verdict.summary) == (False, "enough")
    assert "Job/tfapp-train-1" not in cluster.names()
    assert engine.stop("train", "again") == stopped


def test_a_follower_goes_on_asking_while_the_api_is_away(engine, cluster, small, monkeypatch):
    engine.create("train", small)
    monkeypatch.setattr("tfapp.engines.kubernetes.engine.OUTAGE_EVERY", 0.0)
    following = engine.follow("train")

    def watch(kind, name, timeout, away):
        yield "ADDED", cluster.get(kind, name)
        cluster.away = True
        away("the API is away")

    cluster.watch = watch
    assert next(following).status.state == "ACCEPTED"
    assert next(following).waits == "the API is away; tfapp goes on asking"
    cluster.away = False
    end(cluster)
    assert [a.live for a in following] == [False]


def test_a_file_that_no_secret_holds_has_to_be_here(engine, cluster, small, tmp_path):
    engine.create("train", small)
    end(cluster)
    path = tmp_path / "home" / "cache" / "large.zip"
    wanted = {"0" * 64: path.name}
    cluster.objects["ConfigMap", "tfapp-train"]["data"][submission.LARGE] = json.dumps(wanted)
    with pytest.raises(UnavailableError) as raised:
        engine.start("train")
    assert raised.value.message == (
        "large.zip, which train ships to its containers, is not on this machine"
    )
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"other content")
    with pytest.raises(UnavailableError):
        engine.start("train")
    assert cluster.names() == ALL


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


def test_the_oldest_runs_are_forgotten_in_time(engine, cluster, small):
    engine.create("train", small)
    end(cluster)
    data = cluster.objects["ConfigMap", "tfapp-train"]["data"]
    assert engine.start("train").run == 2
    end(cluster, 2)
    data["definition"] = data["definition"] + " " * submission.RECORD_LIMIT
    assert engine.start("train").run == 3
    assert record.run_numbers(data) == [2, 3]


def test_destroy_forgets_pods_on_nodes_that_are_lost(engine, cluster, small, monkeypatch):
    engine.create("train", small)
    end(cluster)
    monkeypatch.setattr(submission, "FORGET_AFTER", 0.0)
    metadata = {"name": "stuck", "labels": names.run_labels("train", 1)}
    cluster.create({"kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}})
    delete = cluster.delete

    def held_back(kind, name, foreground=False, grace=None):
        if kind == "Pod" and grace == 0:
            cluster.delete = delete
            return delete(kind, name) and delete("ConfigMap", "tfapp-train")
        cluster.objects["ConfigMap", "tfapp-train"]["metadata"]["deletionTimestamp"] = "now"
        with pytest.raises(UnknownApplicationError):
            engine.find("train")
        assert engine.list() == ()
        return True

    cluster.delete = held_back
    engine.destroy("train")
    assert cluster.names() == []


def test_damaged_records_are_listed(engine, cluster, small):
    engine.create("train", small)
    cluster.objects["ConfigMap", "tfapp-train"]["data"][record.run_key(1)] = "{"
    (found,) = engine.list()
    assert found.status.state == "DAMAGED" and "ConfigMap tfapp-train" in found.waits
    engine.destroy("train")
    assert cluster.names() == []


def test_files_that_an_application_uses_are_known_here(engine, small, tmp_path):
    engine.create("train", small)
    (definition,) = Path(tmp_path).glob("home/kubernetes/applications/*/definition.json")
    assert json.loads(definition.read_text())["name"] == "train"
