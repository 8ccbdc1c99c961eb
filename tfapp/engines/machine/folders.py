"""The layout of TFAPP_HOME.

locks/NAME                   held while a command changes application NAME
last-id                      the newest application id's time
cache/environments/          Python environments, made and unpacked, and tfapp for containers
gpus/ID                      held by the master that uses the GPU
apps/NAME/definition.json    what is run: everything `start` needs
apps/NAME/runs/N/            one run
    run.json spec.pb         what its master is to do (class RunConfig; Skein's message)
    security/                its credentials; deleted at the end
    state.json               its running master (class MasterState)
    status.json              for the next master: what the coordinator has published last
    journal                  for the next master, too: see tfapp.master.journal; deleted at the end
    containers/ localized/   working directories and unpacked archives; deleted at the end
    logs/                    master/, coordinator/, one folder for each container
    verdict.json              how it ended (class Ending)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from pathlib import Path

from tfapp.disk import Below, delete_tree, locked, make_private, writing
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

_TIME = re.compile(rb"[0-9]{1,15}")  # milliseconds; anything else in its file is damage
_TRASH = re.compile(r"\..+\.\d+\.\d+")  # see Home.trash


@frozen
class RunFolder:
    """The folder apps/NAME/runs/N."""

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name)

    config = Below("run.json")
    spec = Below("spec.pb")
    state = Below("state.json")
    status = Below("status.json")
    journal = Below("journal")
    ending = Below("verdict.json")
    security = Below("security")
    certificate = Below("security", "skein.crt")
    key = Below("security", "skein.pem")
    containers = Below("containers")
    localized = Below("localized")

    @property
    def environments(self) -> Path:
        """Unpacked Python environments and tfapp's own part, of all applications."""
        return self.path.parents[3] / "cache" / "environments"

    logs = Below("logs")
    master_log = Below("logs", "master", "application.master.log")
    driver_log = Below("logs", "coordinator", "application.driver.log")

    def delete_leftovers(self) -> None:
        """Deletes the files that only a running application needs."""
        for folder in (self.containers, self.localized, self.security):
            delete_tree(folder)
        self.status.unlink(missing_ok=True)


@frozen
class AppFolder:
    """The folder apps/NAME."""

    path: Path

    definition = Below("definition.json")

    def run(self, number: int) -> RunFolder:
        return RunFolder(self.path / "runs" / str(number))

    def runs(self) -> list[RunFolder]:
        """The runs, oldest first, without one that is incomplete."""
        try:
            names = os.listdir(self.path / "runs")
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return []
        runs = [self.run(number) for number in sorted(int(n) for n in names if n.isdigit())]
        return [run for run in runs if run.config.exists()]


@frozen
class Home:
    """TFAPP_HOME."""

    path: Path

    apps = Below("apps")
    gpus = Below("gpus")

    def app(self, name: str) -> AppFolder:
        return AppFolder(self.apps / name)

    def names(self) -> list[str]:
        """The names of all applications, sorted. UnavailableError if the folder is not readable."""
        try:
            found = os.listdir(self.apps)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(
                f"{self.path} cannot be read: {error.strerror}",
                "Set TFAPP_HOME to a folder of your own.",
            ) from error
        return sorted(n for n in found if not n.startswith(".") and self.app(n).runs())

    def prepare(self) -> None:
        """Creates missing folders. UnavailableError if that fails."""
        with writing(self.path):
            for folder in (self.path, self.apps, self.path / "locks", self.gpus):
                make_private(folder)

    def trash(self, name: str, now: float) -> Path:
        """The path to which the application `name` is moved before it is deleted."""
        return self.apps / f".{name}.{int(now * 1000)}.{os.getpid()}"

    def empty_trash(self) -> None:
        """Deletes what is deleted already but for its files: also that of a command which was
        killed meanwhile. Several may do so at the same time."""
        for path in self.apps.iterdir():
            if _TRASH.fullmatch(path.name):
                delete_tree(path)

    def lock(self, name: str) -> contextlib.AbstractContextManager[bool]:
        """The lock of the application `name`, which is not waited for; see `locked`."""
        path = self.path / "locks" / name
        with writing(path):
            return locked(path, 0.0)

    def new_id(self, now: float, run: int) -> str:
        """A new application id, unique under this home. `now`: milliseconds, incremented if the id
        exists."""
        path = self.path / "last-id"
        with writing(path), open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # held for microseconds only
            last = _TIME.fullmatch(file.read())
            milliseconds = max(int(now * 1000), int(last[0]) + 1 if last else 0)
            file.seek(0)
            file.write(b"%d" % milliseconds)
            file.truncate()
        return f"application_{milliseconds}_{run:04d}"
