"""The container of a component whose run mode is docker or yarn-docker: metainfo and appConfig put
together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tfapp.compiler.settings import ComponentSettings, effective
from tfapp.contract.job import Docker, Mount
from tfapp.package.amounts import seconds
from tfapp.package.docker import declared_mount, parse_mounts, parse_options
from tfapp.package.model import AppPackage, Component, setting


def build_docker(package: AppPackage, component: Component, own: ComponentSettings) -> Docker:
    """The component's container. DockerError for mistakes that the rule docker-container reports
    too."""
    declared, settings = _declared(component), own.settings
    fields = parse_options(own.expand(declared.get("options", "")))
    return Docker(
        image=image_of(package, component, own),
        mounts=(*_declared_mounts(declared, own), *parse_mounts(settings.text("docker.mounts"))),
        pull=settings.text("docker.pull"),
        pull_timeout=seconds(settings.text("docker.pull.timeout")),
        credential=settings.text("docker.credential"),
        host=settings.text("docker.host"),
        **fields,
    )


def image_of(package: AppPackage, component: Component, own: ComponentSettings) -> str:
    """The image that appConfig names, else metainfo's, else the schema's default."""
    written = setting(effective(package, component.name), "docker.image")
    image = _declared(component).get("image", "")
    if written is not None and (written.text.strip() and not written.is_default or not image):
        return own.settings.text("docker.image").strip()
    return own.expand(image)


def _declared(component: Component) -> Mapping[str, Any]:
    return component.docker_containers[0] if component.docker_containers else {}


def _declared_mounts(declared: Mapping[str, Any], own: ComponentSettings) -> Iterator[Mount]:
    for written in declared.get("mounts", ()):
        mount = declared_mount(written)
        source, target = own.expand(mount.source), own.expand(mount.target)
        yield dataclasses.replace(mount, source=source, target=target)
