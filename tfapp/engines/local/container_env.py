"""The environment of a container's processes. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

# What a process cannot do without, what YARN's node manager lets through, and where this
# machine's libraries, certificates and Docker are.
_INHERITED = {
    *("PATH", "HOME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("JAVA_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_YARN_HOME"),
    *("HADOOP_MAPRED_HOME", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "XDG_RUNTIME_DIR",
}


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """What containers get of the submitting user's environment: PATH, HOME, SHELL, LANG,
    LANGUAGE, LC_*, TZ, TMPDIR, LD_LIBRARY_PATH, JAVA_HOME, HADOOP_{COMMON,HDFS,YARN,MAPRED}_HOME,
    HADOOP_CONF_DIR, SSL_CERT_FILE, SSL_CERT_DIR, DOCKER_{HOST,CONFIG,CERT_PATH,TLS_VERIFY} and
    XDG_RUNTIME_DIR. Nothing else, as on a cluster: what a program needs is declared in the
    package, by `env.NAME`."""
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith("LC_")
    }


@dataclasses.dataclass(frozen=True)
class Node:
    """What is the same for all containers of a run."""

    application: str
    address: str  # of the master, host:port
    host: str
    user: str
    inherited: Mapping[str, str]


def container_environment(
    node: Node,
    own: Mapping[str, str],
    *,
    yarn_id: str,
    skein_id: str,
    memory: int,
    vcores: int,
    folder: Path,
    logs: Path,
    gpus: tuple[str, ...],
) -> dict[str, str]:
    """The whole environment. `own` is what the spec and `add_container` give; `skein_id` is ""
    for the master script, `memory` is in MiB, `folder` the working directory."""
    fixed = {
        "CONTAINER_ID": yarn_id,
        "NM_HOST": node.host,
        "NM_PORT": "0",  # no node manager listens
        "NM_HTTP_PORT": "0",
        "LOCAL_DIRS": str(folder.parent),
        "LOG_DIRS": str(logs),
        "PWD": str(folder),
        "USER": node.user,
        "LOGNAME": node.user,
        "HADOOP_USER_NAME": node.user,
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "SKEIN_APPLICATION_ID": node.application,
        "SKEIN_APPMASTER_ADDRESS": node.address,
        "SKEIN_RESOURCE_MEMORY": str(memory),
        "SKEIN_RESOURCE_VCORES": str(vcores),
    }
    if skein_id:
        fixed["SKEIN_CONTAINER_ID"] = skein_id
    return {**node.inherited, **own, **fixed}


def yarn_container_id(application: str, number: int) -> str:
    """The id YARN would give to the application's container `number`; 1 is the master's."""
    return f"container_{application.partition('_')[2]}_01_{number:06d}"
