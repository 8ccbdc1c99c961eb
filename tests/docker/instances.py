"""One instance in run mode docker, without a master."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.contract_values import FAILURE_POLICY, LIMITS, make_docker
from tests.docker.engine import BASE
from tfapp.contract.job import ComponentJob, Docker, Job, Private, Resources
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
    fields = {"container": Resources(**sizes), "site": {}, **changes}
    component = ComponentJob(
        name="worker",
        role="worker",
        instances=2,
        min_instances=0,
        max_instances=None,
        script="scripts/tensorflow.py",
        script_timeout=60.0,
        exports=(),
        python="python3",
        docker=docker,
        **fields,
    )
    for name in ("tfapp-package", "files", "log"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return Container(
        job=Job(
            "digits",
            "tensorflow",
            "1",
            "somebody",
            (component,),
            ("worker",),
            LIMITS,
            FAILURE_POLICY,
        ),
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
    """The context of the instance's script."""
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
    end = time.monotonic() + LIMIT
    while not (result := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {LIMIT} s"
        time.sleep(0.02)
    return result


def end_of_pulls() -> None:
    """Waits for those that were left behind by a deadline."""
    for thread in threading.enumerate():
        if thread.name == "tfapp-pull":
            thread.join(LIMIT)
            assert not thread.is_alive()


def labels(engine, id: str) -> Mapping[str, str]:
    """Of a container."""
    import json

    return json.loads(engine.docker("inspect", "--format", "{{json .Config.Labels}}", id))
