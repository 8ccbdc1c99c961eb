"""The request for a container."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tests.contract_values import make_component, make_docker, make_job
from tfapp.contract.job import Mount, Resources
from tfapp.runner.docker.creation import (
    ConfigError,
    HostFacts,
    User,
    check_mounts,
    container_config,
    environment,
    granted_gpus,
    local_path,
    own_mounts,
)
from tfapp.script import Context

COMPONENT = make_component(container=Resources(2048, 3, 2))


def context(root: Path, **changes) -> Context:
    for name in ("package", "files", "work", "log"):
        (root / name).mkdir(exist_ok=True)
    made = Context(
        job=make_job(COMPONENT),
        component=COMPONENT,
        index=1,
        generation=2,
        host="127.0.0.1",
        python="python3",
        work_dir=root / "work",
        log_dir=root / "log",
        files_dir=root / "files",
        package_dir=root / "package",
        checkpoint_dir="/ckpt/digits",
        data_dir="hdfs://nn/data",
        env={"CONTAINER_ID": "container_7"},
        config={},
    )
    return dataclasses.replace(made, **changes)


def test_the_whole_request(tmp_path):
    docker = make_docker(
        "mine/train:3",
        shm_size=1 << 30,
        ipc="host",
        ulimits={"memlock": (-1, -1)},
        tmpfs={"/run": ""},
        cap_drop=("ALL",),
        cgroup_parent="/hadoop-yarn",
    )
    facts = HostFacts(User(1000, 100, (4, 7)), "boot:ns:5:6", cpus=2, gpus=("GPU-a", "GPU-b"))
    argv = ("python3", "-c", "print('$HOME')")
    mounts = (Mount(str(tmp_path), "/data", True),)
    env = {"B": "x y", "A": "1"}
    config = container_config(
        context(tmp_path), docker, facts, argv, env, tmp_path / "work", mounts
    )
    assert config == {
        "Image": "mine/train:3",
        "Entrypoint": ["python3"],
        "Cmd": ["-c", "print('$HOME')"],
        "Env": ["A=1", "B=x y"],
        "WorkingDir": f"{tmp_path}/work",
        "User": "1000:100",
        "Labels": {
            "tfapp": "1",
            "tfapp.runner": "boot:ns:5:6",
            "tfapp.application": "digits",
            "tfapp.component": "worker",
            "tfapp.instance": "worker/1",
            "tfapp.generation": "2",
            "tfapp.container": "container_7",
        },
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": {
            "AutoRemove": True,
            "Init": True,
            "NetworkMode": "host",
            "UsernsMode": "host",
            "Memory": 2 << 30,
            "MemorySwap": 2 << 30,
            "NanoCpus": 2 * 10**9,
            "GroupAdd": ["4", "7"],
            "LogConfig": {"Type": "none"},
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": os.path.realpath(tmp_path),
                    "Target": "/data",
                    "ReadOnly": True,
                }
            ],
            "ShmSize": 1 << 30,
            "IpcMode": "host",
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            "Tmpfs": {"/run": ""},
            "CapDrop": ["ALL"],
            "CgroupParent": "/hadoop-yarn",
            "DeviceRequests": [
                {"Driver": "", "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}
            ],
        },
    }


def test_a_program_sees_its_own_folders(tmp_path):
    read_only = [
        Mount(str(tmp_path / name), str(tmp_path / name), True) for name in ("package", "files")
    ]
    own = [str(tmp_path / "work"), str(tmp_path / "log"), "/ckpt/digits"]
    assert own_mounts(context(tmp_path)) == (*read_only, *(Mount(path, path) for path in own))


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("hdfs://nn/a", ""),
        ("", ""),
    ],
)
def test_what_is_a_path(folder, path):
    assert local_path(folder) == path


def test_mounts_are_ordered_by_depth_and_each_place_has_one(tmp_path):
    inner, outer = Mount(str(tmp_path), "/a/b/"), Mount(str(tmp_path), "/a")
    again = Mount(f"{tmp_path}/.", "/a/b", True)
    first = dataclasses.replace(inner, target="/a/b")
    assert check_mounts((inner, outer, again)) == (outer, first)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("data", "'data' cannot be mounted: the path is not absolute"),
        ("/", "/ is not mounted: it would give the machine away"),
        ("/proc", "/proc is not mounted: it would give the machine away"),
    ],
)
def test_what_is_not_mounted(source, message):
    with pytest.raises(ConfigError) as caught:
        check_mounts((Mount(source, "/in"),))
    assert str(caught.value) == message


def test_the_engines_own_socket_is_not_mounted(tmp_path):
    (tmp_path / "docker.sock").touch()
    (tmp_path / "harmless").symlink_to(tmp_path / "docker.sock")
    with pytest.raises(ConfigError) as caught:
        check_mounts((Mount(f"{tmp_path}/harmless", "/in"),))
    text = f"{tmp_path}/harmless is not mounted: it would give the machine away"
    assert str(caught.value) == text
    with pytest.raises(ConfigError, match="it would give the machine away"):
        check_mounts((Mount(f"{tmp_path}", "/in"),))


def test_two_mounts_at_one_place_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(ConfigError) as caught:
        check_mounts((Mount(f"{tmp_path}/a", "/in"), Mount(f"{tmp_path}/b", "/in")))
    text = f"two mounts at /in in the container: {tmp_path}/a and {tmp_path}/b"
    assert str(caught.value) == text


def test_the_machines_folders_stay_with_the_machine():
    env = {"PATH": "/m", "HOME": "/home/me", "DOCKER_HOST": "unix:///d", "TF_CONFIG": "{}"}
    found = environment(env, (), (), Path("/work"))
    expected = {"TF_CONFIG": "{}", "HOME": "/work", "TINI_KILL_PROCESS_GROUP": "1"}
    assert found == expected
    assert environment(env, ("PATH", "HOME"), (), Path("/work")) == {
        **expected,
        "PATH": "/m",
        "HOME": "/home/me",
    }


@pytest.mark.parametrize(
    ("gpus", "visible"), [(("3", "5"), "0,1"), (("GPU-a", "GPU-b"), "GPU-a,GPU-b")]
)
def test_cuda_counts_among_the_gpus_of_the_container(gpus, visible):
    env = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    assert environment(env, (), gpus, Path("/"))["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b"}, ("GPU-a", "GPU-b")),
        ({"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "1,2"}, ("1", "2")),
    ],
)
def test_gpus_are_those_that_the_engine_has_given(environ, gpus):
    assert granted_gpus(COMPONENT, environ) == gpus
    none = dataclasses.replace(COMPONENT.container, gpus=0)
    assert granted_gpus(dataclasses.replace(COMPONENT, container=none), environ) == ()


@pytest.mark.parametrize("environ", [{}, {"NVIDIA_VISIBLE_DEVICES": "all"}])
def test_gpus_that_nobody_has_named_are_refused(environ):
    with pytest.raises(ConfigError, match="asks for 2 GPUs"):
        granted_gpus(COMPONENT, environ)
