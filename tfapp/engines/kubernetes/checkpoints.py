"""Reads the checkpoint folder of an application in a container: in one of its own while it runs,
else in a short-lived pod with the same volume."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.engines import refusals
from tfapp.engines.base import Checkpoints, StoredFile
from tfapp.engines.checkpoint_folder import is_url, stored_checkpoints
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.failures import ExecError
from tfapp.engines.kubernetes.pod.names import CONTAINER
from tfapp.engines.kubernetes.volumes import holding
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.standalone import checkpoint_reader

PODS = "pods"  # of the application's Secret: JSON, component -> Pod
COMPONENT = "fetch"  # of the short-lived pod
POD_LIMIT = 300.0  # seconds until it must run
POD_LIFE = 6 * 3600  # seconds after which Kubernetes ends it, if no command does

# What the pod takes from a component's: all that decides whether it may run and sees its volumes.
_SPEC = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
)
_CONTAINER = ("image", "imagePullPolicy", "securityContext")
_PASSING = ("emptyDir", "ephemeral", "secret", "configMap", "downwardAPI", "projected")

Manifest = dict[str, Any]


@frozen
class CheckpointPlace:
    """A container with the checkpoint folder. `python`: its interpreter."""

    pod: str
    container: str
    python: str


class PodCheckpoints:
    """See tfapp.engines.base.Checkpoints. `folder`: the path in the container."""

    def __init__(self, cluster: KubernetesCluster, place: CheckpointPlace, folder: str):
        self.place = folder
        self._cluster = cluster
        self._at = place

    def files(self, path: str) -> tuple[StoredFile, ...]:
        try:
            lines = b"".join(self._run("list", path)).splitlines()
        except ExecError as error:
            if error.code == checkpoint_reader.ABSENT:
                raise refusals.no_stored_file(path, self.place) from error
            raise self._unreadable(error) from error
        found = (StoredFile(*json.loads(line)) for line in lines)
        return tuple(sorted(found, key=lambda file: file.path))

    def copy(self, path: str, folder: Path) -> None:
        chunks = self._run("tar", path)
        try:
            unpack(chunks, folder)
            for _ in chunks:  # to the exit code
                pass
        except ExecError as error:
            raise self._unreadable(error) from error
        except (tarfile.TarError, EOFError) as error:
            raise UnavailableError(
                f"{self.place} has not come to the end: {error}", "Try again."
            ) from error

    def _run(self, mode: str, path: str) -> Iterator[bytes]:
        program = Path(checkpoint_reader.__file__).read_text("utf-8")
        words = [self._at.python, "-c", program, mode, self.place, path]
        return iter(self._cluster.exec(self._at.pod, self._at.container, words))

    def _unreadable(self, error: ExecError) -> UnavailableError:
        said = error.stderr.strip().splitlines()[-1:] or [error.message]
        return UnavailableError(f"{self.place} cannot be read: {said[0]}")


def unpack(chunks: Iterator[bytes], folder: Path) -> None:
    """Extracts the files of a tar archive below `folder`. Other entries, and paths that lead out of
    it, are skipped. tarfile.TarError for an invalid or truncated archive."""
    stream = io.BufferedReader(_Chunks(chunks), 1 << 16)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or {"", ".", ".."} & {*member.name.split("/")}:
                continue
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
            os.utime(target, (member.mtime, member.mtime))


class _Chunks(io.RawIOBase):
    """A file object for a stream of chunks."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


@contextlib.contextmanager
def reading(
    cluster: KubernetesCluster, name: str, run: int, folder: str, uid: str, schemes: str = ""
) -> Iterator[Checkpoints]:
    """A context manager: the checkpoint folder `folder`, as in the containers of the application
    `name`. `run`: the newest run. `uid`: that of the record. `schemes`: see stored_checkpoints.
    NotFoundError, UnavailableError."""
    if not folder or is_url(folder):
        yield stored_checkpoints(name, folder, schemes)
        return
    folder = folder.removeprefix("file://")
    pods = _manifests(cluster, name)
    holders = [component for component in pods if volumes_of(pods[component], folder)]
    present = _running(cluster, name, run, pods, holders)
    if present is not None:
        yield PodCheckpoints(cluster, present, folder)
    elif holders:
        with _pod(cluster, name, pods[holders[0]], folder, uid) as place:
            yield PodCheckpoints(cluster, place, folder)
    else:
        raise UnavailableError(
            f"{folder} was in the containers of {name}, which have ended, and in no volume",
            "Let site.global.kubernetes.volumes have a volume that holds "
            "site.global.user.checkpoint.prefix.",
        )


def _manifests(cluster: KubernetesCluster, name: str) -> dict[str, Manifest]:
    """Component -> the Pod of its containers, in job order."""
    secret = cluster.get("Secret", names.application_object(name)) or {}
    data = (secret.get("data") or {}).get(PODS)
    return json.loads(base64.b64decode(data)) if data else {}


def volumes_of(pod: Manifest, folder: str) -> list[Manifest]:
    """The persistent volume of a Pod that contains `folder`, if there is one."""
    found = holding(pod, CONTAINER, folder)
    return [found[0]] if found is not None and not {*_PASSING} & found[0].keys() else []


def _container(pod: Manifest) -> Manifest:
    containers: list[Manifest] = pod["spec"]["containers"]
    return next(one for one in containers if one["name"] == CONTAINER)


def _python(pod: Manifest) -> str:
    """The interpreter of a pod, from its command; see
    tfapp.engines.kubernetes.interpreter.command."""
    return str(_container(pod)["command"][3])


def _running(
    cluster: KubernetesCluster,
    name: str,
    run: int,
    pods: Mapping[str, Manifest],
    holders: Sequence[str],
) -> CheckpointPlace | None:
    """A running container of the application: of the first component with the folder in a volume,
    or else of the first component."""
    order = {names.label_value(component): pods[component] for component in holders or pods}
    found: dict[str, str] = {}
    for pod in cluster.list("Pod", names.run_labels(name, run), "status.phase=Running"):
        metadata = pod["metadata"]
        component = metadata.get("labels", {}).get(names.COMPONENT)
        if component in order and "deletionTimestamp" not in metadata:
            found.setdefault(component, metadata["name"])
    for component, manifest in order.items():
        if component in found:
            return CheckpointPlace(found[component], CONTAINER, _python(manifest))
    return None


@contextlib.contextmanager
def _pod(
    cluster: KubernetesCluster, name: str, pod: Manifest, folder: str, uid: str
) -> Iterator[CheckpointPlace]:
    """The short-lived pod, once it runs. UnavailableError, with Kubernetes' message, if it does not
    run in time."""
    made = reader_pod(name, pod, folder, uid, secrets.token_hex(3))
    own = made["metadata"]["name"]
    try:
        cluster.create(made)
        _await(cluster, own, folder)
        yield CheckpointPlace(own, CONTAINER, _python(pod))
    finally:
        cluster.delete("Pod", own, grace=0)


def reader_pod(name: str, pod: Manifest, folder: str, uid: str, token: str) -> Manifest:
    """The manifest of the short-lived pod: image, user and nodes of a component's `pod`, and its
    volume with `folder`, read-only. Pure."""
    source = _container(pod)
    volumes = volumes_of(pod, folder)
    kept = {volume["name"] for volume in volumes}
    record = names.application_object(name)
    container = {
        **{key: source[key] for key in _CONTAINER if key in source},
        "name": CONTAINER,
        "command": [_python(pod), "-c", f"import time; time.sleep({POD_LIFE})"],
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "128Mi"},
        },
        "volumeMounts": [
            {**mount, "readOnly": True}
            for mount in source.get("volumeMounts") or ()
            if mount["name"] in kept
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{record}-{COMPONENT}-{token}",
            "labels": {**names.application_labels(name), names.COMPONENT: COMPONENT},
            "annotations": pod["metadata"].get("annotations", {}),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": record, "uid": uid}
            ],
        },
        "spec": {
            **{key: pod["spec"][key] for key in _SPEC if key in pod["spec"]},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": POD_LIFE,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "volumes": volumes,
            "containers": [container],
        },
    }


def _await(cluster: KubernetesCluster, pod: str, folder: str) -> None:
    why = "Kubernetes gives no reason"
    for change, now in cluster.watch("Pod", name=pod, timeout=POD_LIMIT):
        ended = endings.ended(now, change == "DELETED", began=False)
        if ended is not None:
            why = ended.message or why
            break
        if now["status"].get("phase") == "Running":
            return
        why = endings.waits(now) or why
    raise UnavailableError(f"the pod {pod}, which is to read {folder}, does not run: {why}")
