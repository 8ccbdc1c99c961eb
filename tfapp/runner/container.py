"""The container of a runner: its job, instance, folders and host."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.job import ComponentJob, Job, Private, Settings
from tfapp.contract.names import (
    ENV_GENERATION,
    ENV_INSTANCE,
    FILES_DIR,
    IMAGE_PYTHON,
    INSTANCE_FILE,
    JOB_FILE,
    MASTER_KEY_FILE,
    PACKAGE_DIR,
    PRIVATE_FILE,
    PYTHON,
    RETURNED_FILE,
    RUNTIME_DIR,
    STORAGE_DIR,
    initial_instance,
    instance_id,
    opened_schemes,
    outputs_of,
    parse_instance,
)
from tfapp.frozen import frozen

WORK_DIR = "work"  # the program's working directory, made by the runner
PROGRESS_FILE = "tfapp-progress"  # in the work folder
CLUSTER_FILE = "tfapp-cluster.json"  # there too
METRICS_FILE = "tfapp-metrics.json"  # there too
MISSED_FILE = "tfapp-missed"  # there too
SAVE_FILE, SAVED_FILE = "tfapp-save.json", "tfapp-saved.json"  # there too
OWN_FILES = frozenset(
    {PROGRESS_FILE, CLUSTER_FILE, METRICS_FILE, MISSED_FILE, SAVE_FILE, SAVED_FILE}
)
CHECKPOINTS_DIR = "checkpoints"  # without a checkpoint prefix, private to the container

# The program must not act as the application: Skein's own variables stay with the runner.
HIDDEN_PREFIX = "SKEIN_"


class ContainerError(Exception):
    """This process does not run in a container of an application. The text is one sentence."""


@frozen
class Container:
    """The container of one instance, read from its files and environment."""

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
        """The file that a program touches to show progress."""
        return self.work_dir / PROGRESS_FILE

    @property
    def cluster_file(self) -> Path:
        """All members of the cluster with their exports, for the program."""
        return self.work_dir / CLUSTER_FILE

    @property
    def metrics_file(self) -> Path:
        """The file to which a program reports its metrics."""
        return self.work_dir / METRICS_FILE

    @property
    def missed_file(self) -> Path:
        """The file in which tfapp's part of a program leaves what `Exit.missed` says."""
        return self.work_dir / MISSED_FILE

    @property
    def save_file(self) -> Path:
        """The file in which a program is asked to save."""
        return self.work_dir / SAVE_FILE

    @property
    def saved_file(self) -> Path:
        """The file in which a program says that it saves if it is asked, and that it has saved."""
        return self.work_dir / SAVED_FILE

    @property
    def returned_file(self) -> Path:
        """The file in which a program leaves what its function returned."""
        return self.log_dir / RETURNED_FILE

    def known(self) -> dict[str, str]:
        """The values of the placeholders that a container can replace, without THIS_HOST."""
        return {
            "COMPONENT_ID": str(self.index),
            "CONTAINER_ID": self.environ.get("CONTAINER_ID", self.id),
            "AGENT_WORK_ROOT": str(self.root),
            "AGENT_LOG_ROOT": str(self.log_dir),
            "WORK_DIR": str(self.work_dir),
        }

    @property
    def startup_dir(self) -> Path:
        """The folder that comes first in PYTHONPATH of programs. The packages that they need to
        open URLs are in `storage_dir`."""
        return self.root / RUNTIME_DIR / "tfapp/storage/startup"

    @property
    def storage_dir(self) -> Path | None:
        """The folder of these packages, None where none travel."""
        folder = self.root / STORAGE_DIR
        return folder if folder.is_dir() else None

    def opens(self, folder: str) -> bool:
        """Whether programs, and the runner with the same packages, open this URL."""
        schemes = opened_schemes(self.component.settings.text("storage.schemes"))
        return self.storage_dir is not None and folder.partition("://")[0] in schemes

    def host(self, site: Mapping[str, str]) -> str:
        """The name or address by which the other instances reach this container."""
        return Settings(site).text("advertise.host") or self.environ.get("NM_HOST") or "127.0.0.1"

    def python(self, site: Mapping[str, str]) -> str:
        executable = Settings(site).text("python.executable")
        if Settings(site).text("run.mode") not in ("", "local"):
            return executable or IMAGE_PYTHON
        if self.component.python == PYTHON:
            return str(self.root / PYTHON)
        return executable or self.component.python

    def data_dir(self, site: Mapping[str, str]) -> str:
        """A path, a URL or ""."""
        return Settings(site).text("user.data.dir")

    def checkpoint_dir(self, site: Mapping[str, str]) -> str:
        """PREFIX/APPLICATION, or, without a prefix, a folder that lasts as long as this
        container."""
        prefix = Settings(site).text("user.checkpoint.prefix")
        if not prefix:
            return str(self.root / CHECKPOINTS_DIR)
        return f"{prefix.rstrip('/')}/{self.job.name}"

    def outputs_dir(self, site: Mapping[str, str]) -> str:
        """The folder of this instance for what programs leave in their working folders, a path or
        a URL; "" where no folder outlives the container, or a URL that is not opened here."""
        prefix = Settings(site).text("user.checkpoint.prefix")
        folder = self.checkpoint_dir(site) if prefix else ""
        if not self.opens(folder):
            folder = local_path(folder)
        application = self.environ.get("SKEIN_APPLICATION_ID", "")
        name = f"{self.component.name}_{self.index}"
        return f"{folder}{outputs_of(application)}/{name}" if folder and application else ""

    def clear_checkpoints(self, site: Mapping[str, str]) -> bool:
        """Empties the checkpoint folder if it is in this container, where no other instance sees
        it. Returns whether anything was there. OSError if it cannot be emptied."""
        folder = Path(self.checkpoint_dir(site))
        if self.root not in folder.parents or not os.path.lexists(folder):
            return False
        old = Path(tempfile.mkdtemp(prefix=f"{folder.name}.old.", dir=folder.parent))
        folder.replace(old / folder.name)  # at once, and whoever owns what is in it
        shutil.rmtree(old, ignore_errors=True)
        return True

    def inherited_environ(self) -> dict[str, str]:
        """The container's environment without the variables that only the runner uses."""
        return {
            name: value
            for name, value in self.environ.items()
            if not name.startswith(HIDDEN_PREFIX)
        }

    def name_logs(self) -> None:
        """Writes the instance's name into the log folder, so that the folder is found after the
        end."""
        (self.log_dir / INSTANCE_FILE).write_text(instance_id(self.component.name, self.index))

    def delete_master_key(self) -> None:
        """Takes the key to the application's master out of reach of the program, which might act
        as the application by accident: a runner needs it only to connect.

        The program has the runner's user id. So it could still read the runner's memory (ptrace,
        /proc/PID/mem), and other copies of the key where they lie: the application's folder
        under TFAPP_HOME; on YARN the NodeManager's cache and the staging folder on HDFS. Other
        containers, and the master, have their own copy or link. OSError when it stays."""
        (self.root / MASTER_KEY_FILE).unlink(missing_ok=True)

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


def local_path(folder: str) -> str:
    """The path of a folder that is named by a path or by a file:// URL, "" of any other URL."""
    if folder.startswith("file://"):
        return folder[len("file://") :]
    return "" if "://" in folder else folder


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())
