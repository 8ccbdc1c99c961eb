"""A Docker container that cannot be had as it is described.

In metainfo's `dockerContainers`, and in `site.global.docker.mounts`. A container shares the
machine's network, so a port has the same number inside and outside. Of the options of `docker
run`, --shm-size, --ipc, --ulimit, --tmpfs, --cap-drop and --cgroup-parent are supported; what
else a container gets stands in appConfig and the resources.

    mounts: [{hostMount: /data, containerMount: /data}]    PASS
    ports: [{hostPort: 80, containerPort: 8080}]           FAIL
    options: "--privileged"                                FAIL
    docker.mounts: "/data:/in:ro, /models"                 PASS
    docker.mounts: "data"                                  FAIL
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.package.docker import DockerError, declared_mount, parse_mounts, parse_options
from tfapp.package.model import AppPackage, Component
from tfapp.package.rules.written import effective_values
from tfapp.problems import Position, Problem

CODE = "docker-container"
NEEDS = ("metainfo", "appConfig")
MOUNTS = "site.global.docker.mounts"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the options, the port or the mount, or at the value of the key."""
    for component in package.components:
        for index, container in enumerate(component.docker_containers):
            yield from _check(component, index, container)
    for _, key, value in effective_values(package):
        if key == MOUNTS:
            yield from _tried(value.at, MOUNTS, parse_mounts, value.text)


def _check(component: Component, index: int, container: Mapping) -> Iterator[Problem]:
    def at(field: str) -> Position:
        return component.positions.get(f"dockerContainers.{index}.{field}", component.at)

    if index:
        hint = "a component runs in one image: keep the first"
        yield Problem(at("name"), CODE, "there is more than one Docker container", hint=hint)
    yield from _tried(at("options"), "options", parse_options, container.get("options", ""))
    for mount in container.get("mounts", ()):
        yield from _tried(at("mounts"), "mounts", declared_mount, mount)
    for port in container.get("ports", ()):
        if port["hostPort"] != port["containerPort"]:
            message = f"port {port['containerPort']} cannot be {port['hostPort']} outside: "
            message += "a container shares the machine's network"
            hint = "give both the same number, or leave it out: ports are those of appConfig"
            yield Problem(at("ports"), CODE, message, hint=hint)


def _tried(
    at: Position, what: str, parse: Callable[[Any], object], written: Any
) -> Iterator[Problem]:
    try:
        parse(written)
    except DockerError as error:
        yield Problem(at, CODE, f"{what}: {error.message}", hint=error.hint)
