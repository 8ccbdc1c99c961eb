"""One instance in run mode docker, without a master."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.contract_values import make_component, make_docker, make_job
from tests.runner.docker.engine import BASE
from tests.waiting import wait
from tfapp.contract.job import Docker, Private, Resources
from tfapp.runner.container import Container
from tfapp.runner.context import InstanceSettings, build_context
from tfapp.runner.docker.mode import DockerMode
from tfapp.runner.run_mode import RunMode
from tfapp.script import Context

LIMIT = 180.0


def container(root: Path, docker: Docker, **changes: Any) -> Container:
    """worker/1 of the application "digits", in the folder `root`. `changes` are of its
    component, but for `env`, `environ` and `redact`."""
    env, redact = changes.pop("env", {}), changes.pop("redact", ())
    environ = changes.pop("environ", {})
    sizes = {"memory": 256, "vcores": 1, "gpus": 0}
    sizes = {name: changes.pop(name, size) for name, size in sizes.items()}
    component = make_component(container=Resources(**sizes), docker=docker, **changes)
    for name in ("tfapp-package", "files", "log"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return Container(
        job=make_job(component),
        private=Private(env={"worker": env}, redact=redact),
        component=component,
        index=1,
        generation=1,
        id="worker_3",
        root=root,
        log_dir=root / "log",
        environ={
            "PATH": os.environ["PATH"],
            "DOCKER_HOST": os.environ["DOCKER_HOST"],
            "CONTAINER_ID": "container_1_0001_01_000003",
            **environ,
        },
    )


def context(container: Container, mode: RunMode) -> Context:
    settings = InstanceSettings(container.component.site, {})
    return build_context(container, settings, container.generation, {}, mode.execute)


@contextlib.contextmanager
def docker_mode(
    root: Path, docker: Docker | None = None, say: Callable[[str], None] = print, **changes: Any
) -> Iterator[tuple[DockerMode, Context]]:
    """A run mode that is ready, and what a script would see."""
    place = container(root, docker or make_docker(BASE), **changes)
    place.make_work_dir()
    mode = DockerMode(place, place.component.docker, say)
    try:
        mode.prepare()
        yield mode, context(place, mode)
    finally:
        mode.close()


def eventually(condition: Callable[[], Any], what: str = "it") -> Any:
    """The first true result of `condition`."""
    return wait(condition, f"{what} did not happen within {LIMIT} s", LIMIT, every=0.02)


def end_of_pulls() -> None:
    """Waits for those that were left behind by a deadline."""
    for thread in threading.enumerate():
        if thread.name == "tfapp-pull":
            thread.join(LIMIT)
            assert not thread.is_alive()


def labels(engine, id: str) -> Mapping[str, str]:
    import json

    return json.loads(engine.docker("inspect", "--format", "{{json .Config.Labels}}", id))
