"""Rules for the images and containers of run mode docker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.package.amounts import seconds
from tfapp.package.docker import DockerError, declared_mount, parse_mounts, parse_options
from tfapp.package.model import DOCKER, LOCAL, AppPackage, Component, setting
from tfapp.package.rules.rule import Found, did_you_mean, rule, settings
from tfapp.problems import WARNING, Position


@rule("docker-container", "metainfo", "appConfig")
def docker_container(package: AppPackage) -> Iterator[Found]:
    """A Docker container that cannot be had as it is described.

    In metainfo's `dockerContainers`, and in `site.global.docker.mounts`. A container shares the
    machine's network, so a port has the same number inside and outside. Of the options of
    `docker run`, --shm-size, --ipc, --ulimit, --tmpfs, --cap-drop and --cgroup-parent are
    supported; what else a container gets stands in appConfig and the resources. Reported at the
    options, the port or the mount, or at the value of the key.

        mounts: [{hostMount: /data, containerMount: /data}]    PASS
        ports: [{hostPort: 80, containerPort: 8080}]           FAIL
        options: "--privileged"                                FAIL
        docker.mounts: "/data:/in:ro, /models"                 PASS
        docker.mounts: "data"                                  FAIL
    """
    for component in package.components:
        for index, container in enumerate(component.docker_containers):
            yield from _check(component, index, container)
    for value in settings(package, "docker.mounts"):
        yield from _tried(value.at, "site.global.docker.mounts", parse_mounts, value.text)


def _check(component: Component, index: int, container: Mapping[str, Any]) -> Iterator[Found]:
    def at(field: str) -> Position:
        return component.place(f"dockerContainers.{index}.{field}")

    if index:
        hint = "a component runs in one image: keep the first"
        yield Found(at("name"), "there is more than one Docker container", hint)
    yield from _tried(at("options"), "options", parse_options, container.get("options", ""))
    for mount in container.get("mounts", ()):
        yield from _tried(at("mounts"), "mounts", declared_mount, mount)
    for port in container.get("ports", ()):
        if port["hostPort"] != port["containerPort"]:
            message = f"port {port['containerPort']} cannot be {port['hostPort']} outside: "
            message += "a container shares the machine's network"
            hint = "give both the same number, or leave it out: ports are those of appConfig"
            yield Found(at("ports"), message, hint)


def _tried(at: Position, what: str, parse: Callable[[Any], object], value: Any) -> Iterator[Found]:
    try:
        parse(value)
    except DockerError as error:
        yield Found(at, f"{what}: {error.message}", error.hint)


@rule("docker-credential", "appConfig")
def docker_credential(package: AppPackage) -> Iterator[Found]:
    """`site.global.docker.credential` names none of `credentials`, one of whose values has to be
    the registry's USER:PASSWORD. Reported at the value.

        credentials: {REGISTRY: "env:REGISTRY"}    docker.credential: REGISTRY    PASS
        credentials: {}                            docker.credential: REGISTRY    FAIL
    """
    known = package.config.credentials
    for value in settings(package, "docker.credential"):
        if value.text and value.text not in known:
            otherwise = f"declare it in credentials, as in {value.text}: 'env:{value.text}'"
            hint = did_you_mean(value.text, known, otherwise)
            yield Found(value.at, f"there is no credential '{value.text}'", hint)


@rule("docker-image", "metainfo", "appConfig")
def docker_image(package: AppPackage) -> Iterator[Found]:
    """Run mode docker, and no image to run.

    The image is `site.global.docker.image`, or that of the component's `dockerContainers`. Where
    neither is written, the schema's default image is used, and named in a warning. An empty
    value says that there is no default, and then each component in docker mode needs its own.
    Reported at the value of the run mode.

        run.mode: docker    docker.image: mine/train:3     PASS
        run.mode: docker    (no docker.image)              WARNING
        run.mode: docker    docker.image: ""               FAIL
    """
    for component in package.components:
        values = package.config.components.get(component.name, {})
        mode, image = setting(values, "run.mode"), setting(values, "docker.image")
        declared = any(container.get("image") for container in component.docker_containers[:1])
        if mode is None or mode.text == LOCAL or declared:
            continue
        if image is None or not image.text.strip():
            message = f"run mode {mode.text}, and site.global.docker.image names no image"
            hint = "give it an image that has TensorFlow, or set the run mode to local"
            yield Found(mode.at, message, hint)
        elif image.is_default:
            message = f"no site.global.docker.image is given: the default, {image.text}, is used"
            hint = "name the image that has what your program needs"
            yield Found(mode.at, message, hint, WARNING)


@rule("docker-pull-timeout", "metainfo", "appConfig")
def docker_pull_timeout(package: AppPackage) -> Iterator[Found]:
    """An image that may be pulled for longer than the application waits for its instances.

    `site.global.gang.timeout` goes on while an image is pulled, so a longer
    `site.global.docker.pull.timeout` changes nothing. It counts in run mode docker alone.
    Reported at the value, where one is written.

        gang.timeout: 1800    docker.pull.timeout: 1200    PASS
        gang.timeout: 600     docker.pull.timeout: 1200    WARNING
    """
    for component in package.components:
        values = package.config.components.get(component.name, {})
        mode, pull = setting(values, "run.mode"), setting(values, "docker.pull.timeout")
        gang = setting(values, "gang.timeout")
        if mode is None or mode.text != DOCKER or pull is None or pull.is_default or gang is None:
            continue
        if seconds(pull.text) > seconds(gang.text):
            pulled, waited = (f"{seconds(value.text):.12g} s" for value in (pull, gang))
            message = f"the image may be pulled for {pulled}, but "
            message += f"site.global.gang.timeout is {waited}"
            hint = "set site.global.gang.timeout in global to more: it goes on while an image is "
            yield Found(pull.at, message, f"{hint}pulled", WARNING)
