"""A component's run mode and, in an image, its container: metainfo and appConfig as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tfapp.compiler.settings import ComponentSettings, effective
from tfapp.contract.docker import Docker, Mount
from tfapp.package.docker import declared_mount, parse_mounts, parse_options
from tfapp.package.model import AppPackage, Component

MODE = "site.global.run.mode"
LOCAL, DOCKER, YARN_DOCKER = "local", "docker", "yarn-docker"

_IMAGE = "site.global.docker.image"
_MOUNTS = "site.global.docker.mounts"
_PULL = "site.global.docker.pull"
_PULL_TIMEOUT = "site.global.docker.pull.timeout"
_CREDENTIAL = "site.global.docker.credential"
_HOST = "site.global.docker.host"


def run_mode(own: ComponentSettings) -> str:
    """LOCAL, DOCKER or YARN_DOCKER."""
    return own.site.get(MODE, LOCAL)


def build_docker(package: AppPackage, component: Component, own: ComponentSettings) -> Docker:
    """The container of a component whose run mode has one. DockerError for what the rule
    docker-container reports."""
    declared = _declared(component)
    fields = parse_options(own.expand(declared.get("options", "")))
    return Docker(
        image=_image(package, component, own),
        mounts=(*_declared_mounts(declared, own), *parse_mounts(own.site.get(_MOUNTS, ""))),
        pull=own.site.get(_PULL, Docker.pull),
        pull_timeout=float(own.site.get(_PULL_TIMEOUT, Docker.pull_timeout)),
        credential=own.site.get(_CREDENTIAL, ""),
        host=own.site.get(_HOST, ""),
        **fields,
    )


def _image(package: AppPackage, component: Component, own: ComponentSettings) -> str:
    """What appConfig says, else metainfo, else the schema's default."""
    written = effective(package, component.name).get(_IMAGE)
    image = _declared(component).get("image", "")
    if written is not None and (written.text.strip() and not written.is_default or not image):
        return own.site[_IMAGE].strip()
    return own.expand(image)


def _declared(component: Component) -> Mapping[str, Any]:
    return component.docker_containers[0] if component.docker_containers else {}


def _declared_mounts(declared: Mapping[str, Any], own: ComponentSettings) -> Iterator[Mount]:
    for written in declared.get("mounts", ()):
        mount = declared_mount(written)
        source, target = own.expand(mount.source), own.expand(mount.target)
        yield dataclasses.replace(mount, source=source, target=target)
