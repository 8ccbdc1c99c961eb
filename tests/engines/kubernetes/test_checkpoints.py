"""Reading the checkpoint folder: on a played cluster whose containers are this machine."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfapp.engines.base import StoredFile
from tfapp.engines.kubernetes.checkpoints import POD_LIFE, reader_pod, reading, volumes_of
from tfapp.engines.kubernetes.pod.failures import ExecError
from tfapp.engines.kubernetes.run import reaching
from tfapp.errors import NotFoundError, UnavailableError

VOLUMES = [
    {"name": "tfapp-work", "emptyDir": {}},
    {"name": "saved", "persistentVolumeClaim": {"claimName": "models"}},
    {"name": "config", "configMap": {"name": "settings"}},
]


def manifest(mount: str, python: str = sys.executable) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {"a": "b"}},
        "spec": {
            "priorityClassName": "high",
            "nodeSelector": {"pool": "a"},
            "securityContext": {"runAsUser": 7},
            "initContainers": [{"name": "first"}],
            "volumes": VOLUMES,
            "containers": [
                {"name": "sidecar"},
                {
                    "name": "tfapp",
                    "image": "image:1",
                    "command": ["sh", "-c", "TEXT", python, "image:1"],
                    "env": [{"name": "SECRET", "value": "x"}],
                    "resources": {"limits": {"nvidia.com/gpu": 4}},
                    "volumeMounts": [
                        {"name": "tfapp-work", "mountPath": "/tfapp/work"},
                        {"name": "config", "mountPath": "/config"},
                        {"name": "saved", "mountPath": mount},
                    ],
                },
            ],
        },
    }


class PlayedCluster:
    """With the pods of an application "app" as `pods`; `running`: their components. `states`: what
    becomes of a new pod."""

    in_cluster = False

    def __init__(self, pods, running=()):
        self.pods = pods
        self.running = running
        self.created: list[dict] = []
        self.deleted: list[str] = []
        self.execs: list[str] = []
        self.states: list[tuple[str, dict]] = [("ADDED", {}), ("MODIFIED", {"phase": "Running"})]

    def get(self, kind, name):
        assert (kind, name) == ("Secret", "tfapp-app")
        return {"data": {"pods": base64.b64encode(json.dumps(self.pods).encode()).decode()}}

    def list(self, kind, labels, fields):
        assert (kind, fields) == ("Pod", "status.phase=Running")
        return [
            {
                "metadata": {
                    "name": f"tfapp-app-2-{component}-1",
                    "labels": {"tfapp/component": component},
                }
            }
            for component in self.running
        ]

    def create(self, body):
        self.created.append(body)
        return body

    def watch(self, kind, name, timeout):
        for change, status in self.states:
            yield change, {"metadata": {"name": name}, "status": status}

    def delete(self, kind, name, grace):
        self.deleted.append(name)
        return True

    def exec(self, pod, container, command):
        assert container == "tfapp"
        self.execs.append(pod)
        done = subprocess.run(command, capture_output=True)
        for start in range(0, len(done.stdout), 1000):
            yield done.stdout[start : start + 1000]
        if done.returncode:
            raise ExecError("failed", done.returncode, done.stderr.decode())


@pytest.fixture
def folder(tmp_path) -> Path:
    app = tmp_path / "volume" / "app"
    for name, text in {"checkpoint": "a", "export/ä b.pb": "p" * 5000, "export/v/x": ""}.items():
        path = app / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.utime(app / "checkpoint", (1e9, 1e9))
    (app / "latest").symlink_to("checkpoint")
    (app / "loop").symlink_to(".")
    os.mkfifo(app / "pipe")
    return app


def open_folder(cluster, folder, name="app"):
    return reading(cluster, name, 2, str(folder), "uid-1")


@pytest.mark.parametrize("running", [("ps", "worker"), ()], ids=["running", "ended"])
def test_files_are_listed_and_copied(folder, tmp_path, running):
    pods = {"chief": manifest("/elsewhere"), "worker": manifest(str(folder.parent))}
    cluster = PlayedCluster(pods, running)
    target = tmp_path / "here"
    target.mkdir()
    with open_folder(cluster, folder) as checkpoints:
        assert checkpoints.place == str(folder)
        assert checkpoints.files("") == (
            StoredFile("checkpoint", 1),
            StoredFile("export/v/x", 0),
            StoredFile("export/ä b.pb", 5000),
            StoredFile("latest", 1),
        )
        assert checkpoints.files("export/v") == (StoredFile("export/v/x", 0),)
        assert checkpoints.files("latest") == (StoredFile("latest", 1),)
        with pytest.raises(NotFoundError, match=f"there is no none in {folder}"):
            checkpoints.files("none")
        checkpoints.copy("", target)
    copied = {p.relative_to(target).as_posix(): p for p in target.rglob("*") if not p.is_dir()}
    assert set(copied) == {"checkpoint", "export/v/x", "export/ä b.pb", "latest"}
    assert copied["export/ä b.pb"].read_text() == "p" * 5000
    assert not copied["latest"].is_symlink()
    assert copied["checkpoint"].stat().st_mtime == 1e9
    own = [body["metadata"]["name"] for body in cluster.created]
    assert cluster.deleted == own
    assert set(cluster.execs) == ({"tfapp-app-2-worker-1"} if running else set(own))


def test_the_short_lived_pod_sees_the_volume_and_nothing_else():
    pod = reader_pod("app", manifest("/saved"), "/saved/app", "uid-1", "0a1b2c")
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "tfapp-app-fetch-0a1b2c",
            "labels": {
                "app.kubernetes.io/managed-by": "tfapp",
                "tfapp/application": "app",
                "tfapp/component": "fetch",
            },
            "annotations": {"a": "b"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "tfapp-app", "uid": "uid-1"}
            ],
        },
        "spec": {
            "nodeSelector": {"pool": "a"},
            "securityContext": {"runAsUser": 7},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": POD_LIFE,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "volumes": [VOLUMES[1]],
            "containers": [
                {
                    "name": "tfapp",
                    "image": "image:1",
                    "command": [sys.executable, "-c", f"import time; time.sleep({POD_LIFE})"],
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "128Mi"},
                        "limits": {"memory": "128Mi"},
                    },
                    "volumeMounts": [{"name": "saved", "mountPath": "/saved", "readOnly": True}],
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("mount", "folder", "found"),
    [
        ("/saved", "/saved/app", ["saved"]),
        ("/saved/", "/saved/x/../app", ["saved"]),
        ("/saved", "/saved2/app", []),
        ("/", "/any", ["saved"]),
        ("/", "/tfapp/work/app", []),  # ends with its pod
        ("/", "/config/app", []),
    ],
)
def test_which_volume_holds_the_folder(mount, folder, found):
    assert [volume["name"] for volume in volumes_of(manifest(mount), folder)] == found


def test_a_folder_in_no_volume_ends_with_the_containers(folder):
    cluster = PlayedCluster({"worker": manifest("/elsewhere")}, ["worker"])
    with open_folder(cluster, folder) as checkpoints:
        assert len(checkpoints.files("")) == 4
    cluster.running = ()
    with pytest.raises(UnavailableError, match="which have ended, and in no volume"):
        open_folder(cluster, folder).__enter__()
    assert cluster.created == []


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (
            [
                {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "message": "0/2 nodes are available",
                        }
                    ]
                }
            ],
            "waiting for a node: 0/2 nodes are available",
        ),
        (
            [
                {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
                {
                    "containerStatuses": [
                        {"state": {"waiting": {"reason": "ErrImagePull", "message": "no image"}}}
                    ]
                },
            ],
            "waiting for the image : ErrImagePull: no image",
        ),
        (
            [{"phase": "Failed", "reason": "Evicted", "message": "low"}, {"phase": "Running"}],
            r"its pod was evicted \(low\)",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_run_is_deleted(folder, states, why):
    cluster = PlayedCluster({"worker": manifest(str(folder.parent))})
    cluster.states = [("MODIFIED", status) for status in states]
    with pytest.raises(UnavailableError, match=f"does not run: {why}"):
        open_folder(cluster, folder).__enter__()
    assert cluster.deleted == [cluster.created[0]["metadata"]["name"]]


def test_what_cannot_be_read_is_told_in_the_containers_words(folder, tmp_path, monkeypatch):
    cluster = PlayedCluster({"worker": manifest(str(folder.parent))}, ["worker"])

    def fails(pod, container, command):
        yield b"half a header"
        raise ExecError("failed", 1, "/saved/app/x: Permission denied\n")

    monkeypatch.setattr(cluster, "exec", fails)
    with open_folder(cluster, folder) as checkpoints:
        for act in (lambda: checkpoints.files(""), lambda: checkpoints.copy("", tmp_path / "t")):
            with pytest.raises(UnavailableError, match="/saved/app/x: Permission denied"):
                act()
    monkeypatch.setattr(cluster, "exec", lambda *_: iter([b"no archive"]))
    with open_folder(cluster, folder) as checkpoints, pytest.raises(UnavailableError, match="end"):
        checkpoints.copy("", tmp_path / "t")


@pytest.mark.parametrize(
    ("place", "error"), [("", NotFoundError), ("gs://bucket/app", UnavailableError)]
)
def test_folders_that_no_pod_has(place, error):
    with pytest.raises(error):
        reading(PlayedCluster({}), "app", 1, place, "uid").__enter__()


class Forwards:
    """A cluster that leads to ports."""

    def __init__(self, in_cluster: bool, *pods: tuple[str, str]):
        self.in_cluster = in_cluster
        self.pods = pods
        self.asked: list[Any] = []

    def list(self, kind, labels, fields):
        self.asked.append(labels["tfapp/instance"])
        return [{"metadata": {"name": n, "creationTimestamp": made}} for n, made in self.pods]

    def forward(self, pod, port):
        self.asked.append((pod, port))
        return self

    def __enter__(self):
        return ("127.0.0.1", 7)

    def __exit__(self, *_):
        self.asked.append("closed")


def test_ways_to_pages():
    cluster = Forwards(False, ("old", "2026-01-01"), ("new", "2026-02-01"))
    with reaching(cluster, "app", 1, "tensorboard/0", "http://10.0.0.5:6006/#scalars") as way:
        assert way == "http://127.0.0.1:7/#scalars"
    assert cluster.asked == ["tensorboard-0", ("new", 6006), "closed"]
    with reaching(Forwards(True), "app", 1, "tensorboard/0", "http://10.0.0.5:6006") as way:
        assert way == "http://10.0.0.5:6006"
    with pytest.raises(UnavailableError, match="tensorboard/0 of app has no running pod"):
        reaching(Forwards(False), "app", 1, "tensorboard/0", "http://x:1").__enter__()
