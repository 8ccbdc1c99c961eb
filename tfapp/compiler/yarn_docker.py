"""Run mode yarn-docker: YARN runs the whole container in the image, tfapp's runner included.
https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/DockerContainers.html"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfapp.compiler.docker import build_docker
from tfapp.compiler.settings import ComponentSettings, effective
from tfapp.contract.job import Docker, Job
from tfapp.package.model import DOCKER, YARN_DOCKER, AppPackage, Component, setting
from tfapp.problems import Problem

if TYPE_CHECKING:
    import skein

CODE = "yarn-docker"
RUNTIME_TYPE = "YARN_CONTAINER_RUNTIME_TYPE"
_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"

# These reach a shell file of YARN's, where nothing quotes them.
_WORD = re.compile(r"[A-Za-z0-9_./@:+=-]*\Z")
_PATH = re.compile(r"[A-Za-z0-9_./@+=-]+\Z")


def runtime_environment(docker: Docker) -> dict[str, str]:
    """The environment variables that make YARN run a container in an image."""
    environment = {
        RUNTIME_TYPE: "docker",
        f"{_PREFIX}IMAGE": docker.image,
        f"{_PREFIX}CONTAINER_NETWORK": "host",
    }
    if docker.mounts:
        environment[f"{_PREFIX}MOUNTS"] = ",".join(
            f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"
            for mount in docker.mounts
        )
    return environment


def run_modes(spec: skein.ApplicationSpec, job: Job) -> set[str]:
    """The run modes of a compiled application."""
    parts = (spec.master, *spec.services.values())
    modes = {YARN_DOCKER for part in parts if RUNTIME_TYPE in part.env}
    return modes | {DOCKER for component in job.components if component.docker is not None}


def yarn_images(
    package: AppPackage, settings: Mapping[str, ComponentSettings]
) -> dict[str, Docker]:
    """The containers of the components in this run mode, by component."""
    return {
        name: build_docker(package, package.component(name), own)
        for name, own in settings.items()
        if own.run_mode == YARN_DOCKER
    }


def check_yarn_docker(
    package: AppPackage, settings: Mapping[str, ComponentSettings]
) -> Iterator[Problem]:
    """Problems: settings that YARN's Docker runtime does not support."""
    for name, docker in yarn_images(package, settings).items():
        component, mode = package.component(name), setting(effective(package, name), "run.mode")
        for message, hint in _unsupported(component, docker):
            at = mode.at if mode else component.at
            yield Problem(at, CODE, f"{name}: {message}", hint=hint)


def _unsupported(component: Component, docker: Docker) -> Iterator[tuple[str, str]]:
    if any(container.get("options") for container in component.docker_containers):
        yield "YARN's Docker runtime takes no options of dockerContainers", "remove them"
    if docker.credential:
        yield (
            "YARN's Docker runtime takes no site.global.docker.credential",
            "let the node managers' own Docker configuration have the login",
        )
    if docker.pull != "missing":
        yield (
            "YARN's Docker runtime has a pull policy of its own",
            "remove site.global.docker.pull",
        )
    if docker.host:
        yield "YARN's Docker runtime has an engine of its own", "remove site.global.docker.host"
    paths = [path for mount in docker.mounts for path in (mount.source, mount.target)]
    for text in (*(path for path in paths if not _PATH.match(path)), docker.image):
        if not _WORD.match(text) or text in paths:
            yield (
                f"{text!r} cannot be told to YARN",
                "use letters, digits and ._/@+=- in the image's name and the paths of mounts",
            )
