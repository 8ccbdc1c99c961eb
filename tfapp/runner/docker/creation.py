"""The request for a program's Docker container, the body of the engine's API. Pure.

The container shares the machine's network, so that the port its instance exports is the port its
program serves, and runs as the runner's own user, so that the kernel lets it bind the port that
the runner holds. It sees the package, the program, its own folders, and what was declared.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.job import ComponentJob, Docker, Mount
from tfapp.contract.names import OF_MACHINE
from tfapp.frozen import frozen
from tfapp.runner.container import local_path
from tfapp.runner.docker.ownership import LABEL, LABEL_RUNNER
from tfapp.script import Context

_LEFT_OUT = {
    *OF_MACHINE,
    *("PWD", "OLDPWD", "LD_PRELOAD", "CLASSPATH", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"),
}

SOCKET = "docker.sock"  # of a Docker engine
_INDEX = re.compile(r"[0-9]+\Z")


class ConfigError(Exception):
    """No container can be made of this configuration; the text is a sentence for the user."""


@frozen
class User:
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@frozen
class HostFacts:
    """Facts of the machine for a container's request: the runner's user and its name for labels,
    the engine's CPUs, and the GPUs that the instance was given."""

    user: User
    runner: str
    cpus: int
    gpus: tuple[str, ...] = ()


def container_config(
    context: Context,
    docker: Docker,
    facts: HostFacts,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    mounts: Sequence[Mount],
) -> dict[str, Any]:
    """The whole request. `env` is what the program gets, `mounts` all that it sees of the
    machine."""
    component, user = context.component, facts.user
    host: dict[str, Any] = {
        "AutoRemove": True,
        # Signals reach the program and its children, and these are waited for.
        "Init": True,
        "NetworkMode": "host",
        "UsernsMode": "host",
        "Memory": component.container.memory << 20,
        "MemorySwap": component.container.memory << 20,
        "NanoCpus": min(component.container.vcores, facts.cpus) * 10**9,
        "GroupAdd": [str(group) for group in user.groups],
        "LogConfig": {"Type": "none"},  # the output goes to the instance's log
        "Mounts": [_mount(mount) for mount in mounts],
        **_options(docker),
    }
    if facts.gpus:
        host["DeviceRequests"] = [
            {"Driver": "", "DeviceIDs": list(facts.gpus), "Capabilities": [["gpu"]]}
        ]
    return {
        "Image": docker.image,
        "Entrypoint": list(argv[:1]),
        "Cmd": list(argv[1:]),
        "Env": [f"{name}={value}" for name, value in sorted(env.items())],
        "WorkingDir": str(cwd),
        "User": f"{user.uid}:{user.gid}",
        "Labels": labels(context, facts.runner),
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": host,
    }


def labels(context: Context, runner: str) -> dict[str, str]:
    """Labels that name the owner of the container."""
    return {
        LABEL: "1",
        LABEL_RUNNER: runner,
        "tfapp.application": context.job.name,
        "tfapp.component": context.component.name,
        "tfapp.instance": context.instance,
        "tfapp.generation": str(context.generation),
        "tfapp.container": context.env.get("CONTAINER_ID", ""),
    }


def environment(
    env: Mapping[str, str], own: Iterable[str], gpus: Sequence[str], home: Path
) -> dict[str, str]:
    """The part of a program's environment that it gets in an image. `own` names the variables that
    the user or the script has set: they all stay."""
    own = set(own)
    kept = {n: v for n, v in env.items() if n in own or n not in _LEFT_OUT}
    # Among the GPUs that a container is given, CUDA counts from 0.
    if gpus and all(_INDEX.match(gpu) for gpu in gpus):
        kept["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(len(gpus))))
    kept.setdefault("HOME", str(home))
    # A signal is for all of the program's process group, as it is without Docker.
    kept["TINI_KILL_PROCESS_GROUP"] = "1"
    return kept


def granted_gpus(component: ComponentJob, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the GPUs that the engine has given to this instance. ConfigError when it was
    to get some and nothing says which."""
    if not component.container.gpus:
        return ()
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        words = environ.get(name, "").split(",")
        ids = tuple(word.strip() for word in words if word.strip())
        if ids and ids[0] not in ("all", "none", "void", "-1"):
            return ids
    raise ConfigError(
        f"{component.name} asks for {component.container.gpus} GPUs (yarn.gpus), and neither "
        "CUDA_VISIBLE_DEVICES nor NVIDIA_VISIBLE_DEVICES says which this container was given"
    )


def own_mounts(context: Context) -> tuple[Mount, ...]:
    """The mounts that a program has at the same path as its runner: the package and the program to
    read, its working and log folders, the checkpoints and the data to write."""
    writable = [str(context.work_dir), str(context.log_dir)]
    folders = (context.checkpoint_dir, context.data_dir)
    writable += [path for path in map(local_path, folders) if path]
    read_only = [path for path in (context.package_dir, context.files_dir) if path.is_dir()]
    found = [Mount(str(path), str(path), True) for path in read_only]
    found += [Mount(path, path) for path in dict.fromkeys(writable)]
    return tuple(found)


def check_mounts(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """Each target once, in order of depth. ConfigError for a source that is not there or would
    give the whole machine away, and for two sources at one target."""
    found: dict[str, Mount] = {}
    for mount in mounts:
        target = os.path.normpath(mount.target)
        mount = dataclasses.replace(mount, target=target)
        _check_source(mount)
        other = found.setdefault(target, mount)
        if os.path.realpath(other.source) != os.path.realpath(mount.source):
            raise ConfigError(
                f"two mounts at {target} in the container: {other.source} and {mount.source}"
            )
    return tuple(sorted(found.values(), key=lambda mount: (mount.target.count("/"), mount.target)))


def _check_source(mount: Mount) -> None:
    if not os.path.isabs(mount.source):
        raise ConfigError(f"{mount.source!r} cannot be mounted: the path is not absolute")
    try:
        real = os.path.realpath(mount.source)
    except OSError as error:
        raise ConfigError(f"{mount.source} cannot be mounted: {error.strerror}") from error
    if not os.path.exists(real):
        raise ConfigError(
            f"{mount.source} does not exist on this machine and cannot be mounted in the "
            "container; make it, or mount it there too"
        )
    engine = os.path.basename(real) == SOCKET or os.path.exists(os.path.join(real, SOCKET))
    if real in ("/", "/proc", "/sys", "/dev") or engine:
        raise ConfigError(f"{mount.source} is not mounted: it would give the machine away")


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": os.path.realpath(mount.source),
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }


def _options(docker: Docker) -> dict[str, Any]:
    given = {
        "ShmSize": docker.shm_size,
        "IpcMode": docker.ipc,
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in sorted(docker.ulimits.items())
        ],
        "Tmpfs": dict(docker.tmpfs),
        "CapDrop": list(docker.cap_drop),
        "CgroupParent": docker.cgroup_parent,
    }
    return {name: value for name, value in given.items() if value}
