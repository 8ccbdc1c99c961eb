"""Run mode docker, and no image to run.

The image is `site.global.docker.image`, or that of the component's `dockerContainers`. Where
neither is written, the schema's default image is used, and named in a warning. An empty value
says that there is no default, and then each component in docker mode needs its own.

    run.mode: docker    docker.image: mine/train:3     PASS
    run.mode: docker    (no docker.image)              WARNING
    run.mode: docker    docker.image: ""               FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component
from tfapp.problems import WARNING, Problem

CODE = "docker-image"
NEEDS = ("metainfo", "appConfig")
MODES = ("docker", "yarn-docker")
MODE, IMAGE = "site.global.run.mode", "site.global.docker.image"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value of the run mode."""
    for component in package.components:
        values = package.config.components.get(component.name, {})
        mode, image = values.get(MODE), values.get(IMAGE)
        if mode is None or mode.text not in MODES or _declared(component):
            continue
        if image is None or not image.text.strip():
            message = f"run mode {mode.text}, and {IMAGE} names no image"
            hint = "give it an image that has TensorFlow, or set the run mode to local"
            yield Problem(mode.at, CODE, message, hint=hint)
        elif image.is_default:
            message = f"no {IMAGE} is given: the default, {image.text}, is used"
            hint = "name the image that has what your program needs"
            yield Problem(mode.at, CODE, message, WARNING, hint)


def _declared(component: Component) -> bool:
    return any(container.get("image") for container in component.docker_containers[:1])
