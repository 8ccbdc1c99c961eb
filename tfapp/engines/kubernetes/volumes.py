"""The keys site.global.kubernetes.* of a component or of the application, as values. Checks the
checkpoint folder in the volumes. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfapp.contract.job import Settings
from tfapp.frozen import frozen
from tfapp.package.amounts import size

PVC, HOST_PATH, NFS, SECRET, CONFIG_MAP = "pvc", "hostPath", "nfs", "secret", "configMap"
EMPTY_DIR, MEMORY = "emptyDir", "memory"
READ_ONLY = "ro"
OWN = "/tfapp"  # below it is what tfapp itself mounts
CLAIM = "persistentVolumeClaim"  # Kubernetes' word

# Access modes of claims that pods on any node can write at the same time.
SHARED_MODES = frozenset({"ReadWriteMany"})

_SHAPES = {
    PVC: "pvc:CLAIM:/PATH",
    HOST_PATH: "hostPath:/HOSTPATH:/PATH",
    NFS: "nfs:SERVER:/EXPORT:/PATH",
    SECRET: "secret:NAME:/PATH",
    CONFIG_MAP: "configMap:NAME:/PATH",
    EMPTY_DIR: "emptyDir:/PATH or emptyDir:SIZE:/PATH",
    MEMORY: "memory:SIZE:/PATH",
}


class VolumeError(Exception):
    """An invalid volume; `hint` says what to write."""

    def __init__(self, message: str, hint: str):
        super().__init__(message)
        self.message = message
        self.hint = hint


@frozen
class Volume:
    """A volume and its path in the container. `source` and `path` depend on the kind: a claim and a
    folder in it; a path of the node; a server and its export; a size in bytes, "" for any; a name.
    """

    kind: str
    source: str
    mount: str
    path: str = ""
    read_only: bool = False

    def manifest(self, name: str) -> dict[str, Any]:
        sources: dict[str, tuple[str, dict[str, Any]]] = {
            PVC: (CLAIM, {"claimName": self.source}),
            HOST_PATH: ("hostPath", {"path": self.source}),
            NFS: ("nfs", {"server": self.source, "path": self.path}),
            SECRET: ("secret", {"secretName": self.source}),
            CONFIG_MAP: ("configMap", {"name": self.source}),
            EMPTY_DIR: ("emptyDir", {"sizeLimit": self.source} if self.source else {}),
            MEMORY: ("emptyDir", {"medium": "Memory", "sizeLimit": self.source}),
        }
        key, source = sources[self.kind]
        return {"name": name, key: source}

    def volume_mount(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "mountPath": self.mount}
        if self.kind == PVC and self.path:
            found["subPath"] = self.path
        if self.read_only:
            found["readOnly"] = True
        return found


def parse_volumes(words: Iterable[str]) -> tuple[Volume, ...]:
    """Parses "pvc:data:/data:ro" ... VolumeError for an invalid volume, and for two volumes with
    one path."""
    volumes = tuple(_volume(word) for word in words)
    paths = [volume.mount for volume in volumes]
    for path in sorted(path for path in set(paths) if paths.count(path) > 1):
        raise VolumeError(f"two volumes have the path {path}", "give each a path of its own")
    return volumes


def _volume(word: str) -> Volume:
    kind, *rest = word.split(":")
    read_only = rest[-1:] == [READ_ONLY]
    rest = rest[:-1] if read_only else rest
    if kind == EMPTY_DIR and len(rest) == 1:
        rest = ["", *rest]
    if kind not in _SHAPES or len(rest) != (3 if kind == NFS else 2):
        shapes = [_SHAPES[kind]] if kind in _SHAPES else list(_SHAPES.values())
        raise VolumeError(f"{word!r} is no volume", f"write {', '.join(shapes)}; at its end :ro")
    source, mount = rest[0], rest[-1]
    path = rest[1] if kind == NFS else ""
    if kind == PVC:
        source, _, path = source.partition("/")
    if kind in (EMPTY_DIR, MEMORY):
        source = _size(word, source)
    absolute = [mount, *([source] if kind == HOST_PATH else [path] if kind == NFS else [])]
    _check_paths(word, absolute, path if kind == PVC else "")
    if not source and kind != EMPTY_DIR:
        raise VolumeError(f"{word!r} is no volume: a name is missing", f"write {_SHAPES[kind]}")
    mount = posixpath.normpath(mount)
    read_only = read_only or kind in (SECRET, CONFIG_MAP)
    return Volume(kind, source, mount, path, read_only)


def _size(word: str, text: str) -> str:
    if not text:
        return ""
    try:
        found = size(text)
    except ValueError:
        found = 0
    if not found:
        raise VolumeError(f"{word!r} is no volume: {text!r} is no size", "write it as 10GiB")
    return str(found)


def _check_paths(word: str, absolute: Iterable[str], inner: str) -> None:
    for path in absolute:
        if not path.startswith("/"):
            message = f"{word!r} is no volume: {path!r} is not an absolute path"
            raise VolumeError(message, "write the whole path, beginning with /")
        if ".." in path.split("/"):
            raise VolumeError(f"{word!r} is no volume: {path!r} holds '..'", "write it without")
    if inner.startswith("/") or ".." in inner.split("/"):
        raise VolumeError(f"{word!r} is no volume: {inner!r} leaves the claim", "write it without")
    mount = posixpath.normpath(next(iter(absolute)))
    if mount == "/" or mount == OWN or mount.startswith(f"{OWN}/"):
        raise VolumeError(f"{word!r} would hide tfapp or the image", "give it another path")


# ---- All keys ---------------------------------------------------------------------------------


_EFFECTS = re.compile(r"([^=:]+)(?:=([^:]*))?(?::(\w+))?\Z")


@frozen
class PodSettings:
    """The settings for pods. "" and () for a key that is not set. `user`: 0 for that of the image.
    `cpu`: in Kubernetes' notation."""

    volumes: tuple[Volume, ...]
    pull_secrets: tuple[str, ...]
    service_account: str
    gpu_resource: str
    cpu: str
    node_selector: dict[str, str]
    tolerations: tuple[dict[str, str], ...]
    priority_class: str
    safe_to_evict: bool
    user: int
    pull_policy: str

    @classmethod
    def read(cls, settings: Settings) -> PodSettings:
        """VolumeError for invalid volumes."""
        pairs = (word.partition("=") for word in settings.names("kubernetes.node.selector"))
        return cls(
            volumes=parse_volumes(settings.names("kubernetes.volumes")),
            pull_secrets=settings.names("kubernetes.image.pull.secrets"),
            service_account=settings.text("kubernetes.service.account"),
            gpu_resource=settings.text("kubernetes.gpu.resource"),
            cpu=settings.text("kubernetes.cpu.request"),
            node_selector={key: value for key, _, value in pairs},
            tolerations=tuple(_toleration(w) for w in settings.names("kubernetes.tolerations")),
            priority_class=settings.text("kubernetes.priority.class"),
            safe_to_evict=settings.flag("kubernetes.safe.to.evict"),
            user=int(settings.text("kubernetes.user") or 0),
            pull_policy=_POLICIES.get(settings.text("docker.pull"), ""),
        )


_POLICIES = {"never": "Never", "missing": "IfNotPresent", "always": "Always"}


def _toleration(word: str) -> dict[str, str]:
    match = _EFFECTS.match(word)
    assert match is not None, word  # the schema has seen to that
    key, value, effect = match.groups()
    found = {"key": key, "operator": "Exists"}
    if value is not None:
        found = {"key": key, "operator": "Equal", "value": value}
    return {**found, "effect": effect} if effect else found


# ---- Where checkpoints go ---------------------------------------------------------------------


def holding(
    pod: Mapping[str, Any], container: str, path: str
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """(entry of `volumes`, entry of `volumeMounts`) of the volume that contains `path` in
    `container` of `pod`; None if it is in none."""
    path = posixpath.normpath(path)
    spec = pod["spec"]
    mounts: Sequence[dict[str, Any]] = next(
        (c.get("volumeMounts") or () for c in spec["containers"] if c["name"] == container), ()
    )
    around = [
        mount
        for mount in mounts
        if f"{path}/".startswith(f"{posixpath.normpath(mount.get('mountPath', '')).rstrip('/')}/")
    ]
    if not around:
        return None
    mount = max(around, key=lambda found: len(posixpath.normpath(found["mountPath"])))
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    return (volumes[mount["name"]], mount) if mount.get("name") in volumes else None


def objection(
    volume: Mapping[str, Any],
    mount: Mapping[str, Any],
    many: bool,
    claims: Mapping[str, Sequence[str]],
) -> tuple[str, str, bool] | None:
    """(why checkpoints should not be in a volume, a hint, whether it is certain); None if they can
    be. `many`: there are several instances. `claims`: the access modes of known claims."""
    use = "name a volume that all can write, as pvc:CLAIM:/PATH with the access mode ReadWriteMany"
    where = f"{mount['mountPath']} of the pods"
    source = volume.get(CLAIM)
    if mount.get("readOnly") or (source or {}).get("readOnly"):
        return f"{where} is read-only", "remove ':ro'", True
    for kind in ("secret", "configMap", "projected", "downwardAPI", "image"):
        if kind in volume:
            return f"{where} is a {kind}, which cannot be written", use, True
    if "emptyDir" in volume:
        if many:
            return f"{where} is an emptyDir: each instance has one of its own", use, True
        return f"{where} is an emptyDir, which ends with its pod", use, False
    if "hostPath" in volume and many:
        hint = "that is right where all nodes have one file system there; else use a claim or nfs"
        return f"{where} is a hostPath: each node has one of its own", hint, False
    if source is not None and many:
        name = source.get("claimName", "")
        modes = claims.get(name)
        if modes and not SHARED_MODES & set(modes):
            found = ", ".join(modes)
            return f"{where} is the claim {name}, whose access mode is {found}", use, True
    return None
