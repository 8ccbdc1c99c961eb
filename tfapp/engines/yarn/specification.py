"""What YARN and Skein's master need in a specification, which Skein can submit whichever engine has
compiled it. In run mode yarn-docker YARN runs the whole container in the image, tfapp's runner
included.
https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/DockerContainers.html"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfapp.compiler.options import CompileOptions
from tfapp.compiler.plan import ComponentPlan, Plan
from tfapp.compiler.specification import container_script
from tfapp.contract.job import Docker
from tfapp.contract.names import IMAGE_PYTHON, PEX_FILE, PYTHON_DIR
from tfapp.engines.definition import TAG, definition_tag
from tfapp.package.model import Component, setting
from tfapp.problems import Problem

if TYPE_CHECKING:
    from tfapp.skein_library import skein

YARN_DOCKER = "yarn-docker"  # the run mode, and the code of its problems

# The master is a JVM. With the sizes its heap is not dwarfed by reserved address space, which
# YARN's virtual-memory check would kill it for; with one compiler it takes half of the processor
# time until it is up; without java.util opened, Skein's web pages fail on Java 17. Java 8 refuses
# --add-opens, and does not read JDK_JAVA_OPTIONS.
MASTER_ENVIRONMENT = {
    "JAVA_TOOL_OPTIONS": "-XX:CompressedClassSpaceSize=64m -XX:ReservedCodeCacheSize=64m "
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.util=ALL-UNNAMED",
    "MALLOC_ARENA_MAX": "2",
}
_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"

# These reach a shell file of YARN's, where nothing quotes them.
_WORD = re.compile(r"[A-Za-z0-9_./@:+=-]*\Z")
_PATH = re.compile(r"[A-Za-z0-9_./@+=-]+\Z")


def adapt(spec: skein.ApplicationSpec, plan: Plan, options: CompileOptions) -> None:
    """Adds to `spec` what YARN and Skein's master need. Where there is a place for its files, a tag
    names its definition there."""
    spec.master.env = dict(MASTER_ENVIRONMENT)
    spec.max_attempts = plan.job.attempts
    for name, component in plan.components.items():
        docker = _image_of(component)
        if docker is not None:
            _put_into_image(spec.services[name], docker, component)
    spec.tags.add(TAG)
    if options.place:
        spec.tags.add(definition_tag(spec))


def _image_of(plan: ComponentPlan) -> Docker | None:
    """The container of a component in this run mode."""
    return plan.docker if plan.own.run_mode == YARN_DOCKER else None


def _put_into_image(service: skein.Service, docker: Docker, plan: ComponentPlan) -> None:
    """The image has the runner's Python too, in place of an environment that travels."""
    python = plan.own.settings.text("python.executable") or IMAGE_PYTHON
    service.env = _runtime_environment(docker)
    service.script = container_script(python, "runner", "site.global.python.executable")
    for travelling in (PYTHON_DIR, PEX_FILE):
        service.files.pop(travelling, None)


def _runtime_environment(docker: Docker) -> dict[str, str]:
    """The environment variables that make YARN run a container in an image."""
    environment = {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        f"{_PREFIX}IMAGE": docker.image,
        f"{_PREFIX}CONTAINER_NETWORK": "host",
    }
    if docker.mounts:
        environment[f"{_PREFIX}MOUNTS"] = ",".join(
            f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"
            for mount in docker.mounts
        )
    return environment


def check(application: Plan) -> Iterator[Problem]:
    """Problems: settings that YARN's Docker runtime does not support."""
    for plan in application.components.values():
        docker = _image_of(plan)
        for message, hint in _unsupported(plan.component, docker) if docker is not None else ():
            mode = setting(plan.values, "run.mode")
            at = mode.at if mode else plan.component.at
            yield Problem(at, YARN_DOCKER, f"{plan.component.name}: {message}", hint=hint)


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
