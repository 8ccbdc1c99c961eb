"""What a runner finds in its container: the job, its own place in it, folders, host."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.container import (
    ENV_GENERATION,
    ENV_INSTANCE,
    FILES_DIR,
    INSTANCE_FILE,
    JOB_FILE,
    PACKAGE_DIR,
    PRIVATE_FILE,
    PYTHON,
)
from tfapp.contract.instances import initial_instance, instance_id, parse_instance
from tfapp.contract.job import ComponentJob, Job
from tfapp.contract.private import Private

WORK_DIR = "work"  # the program's working directory, made by the runner
PROGRESS_FILE = "tfapp-progress"  # in the work folder
IMAGE_PYTHON = "python3"  # in an image there may be no other, least of all tfapp's own
CHECKPOINTS_DIR = "checkpoints"  # without a checkpoint prefix, private to the container

# The program must not act as the application: Skein's own variables stay with the runner.
HIDDEN_PREFIX = "SKEIN_"

_HOST_KEY = "site.global.advertise.host"
_PREFIX_KEY = "site.global.user.checkpoint.prefix"
_DATA_KEY = "site.global.user.data.dir"
_MODE_KEY = "site.global.run.mode"
_PYTHON_KEY = "site.global.python.executable"


class ContainerError(Exception):
    """This process does not stand in a container of an application; one sentence."""


@dataclasses.dataclass(frozen=True)
class Container:
    """The surroundings of one instance."""

    job: Job
    private: Private
    component: ComponentJob
    index: int
    generation: int  # at the time of the container's request
    id: str  # Skein's: "worker_1"
    root: Path  # the container's working directory
    log_dir: Path
    environ: Mapping[str, str]  # of the container

    @classmethod
    def read(cls, root: Path, environ: Mapping[str, str]) -> Container:
        """From the container's files and environment. ContainerError when one is missing or
        unusable."""
        try:
            job = Job.from_dict(_json(root / JOB_FILE))
            private = Private.from_dict(_json(root / PRIVATE_FILE))
            container = environ["SKEIN_CONTAINER_ID"]
            name, index = parse_instance(environ.get(ENV_INSTANCE) or initial_instance(container))
            return cls(
                job=job,
                private=private,
                component=job.component(name),
                index=index,
                generation=int(environ.get(ENV_GENERATION, "1")),
                id=container,
                root=root,
                log_dir=Path(environ.get("LOG_DIRS", "").split(",")[0] or root),
                environ=environ,
            )
        except KeyError as error:
            raise ContainerError(f"{error.args[0]} is not known in this container") from error
        except (OSError, ValueError, TypeError) as error:
            raise ContainerError(str(error)) from error

    @property
    def package_dir(self) -> Path:
        return self.root / PACKAGE_DIR

    @property
    def files_dir(self) -> Path:
        return self.root / FILES_DIR

    @property
    def work_dir(self) -> Path:
        return self.root / WORK_DIR

    @property
    def progress_file(self) -> Path:
        """What a program touches to show that it gets on."""
        return self.work_dir / PROGRESS_FILE

    def known(self) -> dict[str, str]:
        """What the placeholders stand for that a container can replace, but for THIS_HOST."""
        return {
            "COMPONENT_ID": str(self.index),
            "CONTAINER_ID": self.environ.get("CONTAINER_ID", self.id),
            "AGENT_WORK_ROOT": str(self.root),
            "AGENT_LOG_ROOT": str(self.log_dir),
            "WORK_DIR": str(self.work_dir),
        }

    def host(self, site: Mapping[str, str]) -> str:
        """The name under which the others reach this container."""
        return site.get(_HOST_KEY) or self.environ.get("NM_HOST") or "127.0.0.1"

    def python(self, site: Mapping[str, str]) -> str:
        """The interpreter of the user's program."""
        if site.get(_MODE_KEY, "local") != "local":
            return site.get(_PYTHON_KEY) or IMAGE_PYTHON
        if self.job.python == PYTHON:
            return str(self.root / PYTHON)
        return site.get(_PYTHON_KEY) or self.job.python

    def data_dir(self, site: Mapping[str, str]) -> str:
        """A path, a URL or ""."""
        return site.get(_DATA_KEY, "")

    def checkpoint_dir(self, site: Mapping[str, str]) -> str:
        """PREFIX/APPLICATION, or, without a prefix, a folder that lasts as long as this
        container."""
        prefix = site.get(_PREFIX_KEY, "")
        if not prefix:
            return str(self.root / CHECKPOINTS_DIR)
        return f"{prefix.rstrip('/')}/{self.job.name}"

    def inherited_environ(self) -> dict[str, str]:
        """The container's environment without what is the runner's alone."""
        return {
            name: value
            for name, value in self.environ.items()
            if not name.startswith(HIDDEN_PREFIX)
        }

    def name_logs(self) -> None:
        """Says in the log folder whose logs these are, for who finds them after the end."""
        (self.log_dir / INSTANCE_FILE).write_text(instance_id(self.component.name, self.index))

    def make_work_dir(self) -> None:
        """Makes the program's working directory, with links to what stands beside the program,
        so that it finds its own files by relative paths and does not write among those that
        containers share. May be called twice."""
        self.work_dir.mkdir(exist_ok=True)
        if not self.files_dir.is_dir():
            return
        for entry in os.scandir(self.files_dir):
            link = self.work_dir / entry.name
            if not os.path.lexists(link):
                link.symlink_to(self.files_dir / entry.name)


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())
