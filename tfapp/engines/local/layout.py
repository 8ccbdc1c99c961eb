"""What lies where under TFAPP_HOME, and how it is written.

locks/NAME                   held while a command changes application NAME
last-id                      the newest application id's time
gpus/ID                      held by the master that uses the GPU
apps/NAME/definition.json    what is run: everything `start` needs
apps/NAME/runs/N/            one run
    run.json spec.pb         what its master is to do (class RunConfig; Skein's message)
    security/                its credentials; deleted at the end
    state.json               its running master (class MasterState)
    containers/ localized/   working directories and unpacked archives; deleted at the end
    logs/                    master/, coordinator/, one folder for each container
    verdict.json              how it ended (class Ending)
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfapp.errors import UnavailableError

_REASONS = {
    errno.ENOSPC: "there is no space left on its disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "its file system is read-only",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError into an UnavailableError that says what cannot be written, and why."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        if isinstance(error, (NotADirectoryError, FileExistsError)):
            reason = f"{error.filename} is not a folder"
        raise UnavailableError(
            f"{path} cannot be written: {reason}",
            "Make room or access, or name another folder with TFAPP_HOME.",
        ) from error


@contextlib.contextmanager
def needing_room(path: Path) -> Iterator[None]:
    """As `writing`, for full disks only: other errors are not about `path` itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with writing(path):
            raise


def make_private(path: Path) -> Path:
    """Makes a folder that only its owner may enter, and those above it. Returns `path`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file of mode 0600 that is never seen half-written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes a dataclass or plain JSON data, for people to read too. Bytes of the environment
    that are no UTF-8 come back from `read_json` as they were."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="surrogatepass"))


def read_json(path: Path) -> Any:
    """The content, or None when there is no such file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def delete_tree(path: Path) -> None:
    """Deletes a folder whatever its content's modes are; links in it are not followed. Nothing
    happens when there is none."""
    if not path.is_symlink() and path.exists():
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds the lock `path` if it is free; yields whether it is held now. Never waits. The
    kernel gives the lock back when its holder dies."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """apps/NAME/runs/N."""

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name)

    @property
    def config(self) -> Path:
        return self.path / "run.json"

    @property
    def spec(self) -> Path:
        return self.path / "spec.pb"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def ending(self) -> Path:
        return self.path / "verdict.json"

    @property
    def security(self) -> Path:
        return self.path / "security"

    @property
    def certificate(self) -> Path:
        return self.security / "skein.crt"

    @property
    def key(self) -> Path:
        return self.security / "skein.pem"

    @property
    def containers(self) -> Path:
        return self.path / "containers"

    @property
    def localized(self) -> Path:
        return self.path / "localized"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def master_log(self) -> Path:
        return self.logs / "master" / "application.master.log"

    @property
    def driver_log(self) -> Path:
        return self.logs / "coordinator" / "application.driver.log"

    def delete_leftovers(self) -> None:
        """Deletes all that only a running application needs."""
        for folder in (self.containers, self.localized, self.security):
            delete_tree(folder)


@dataclasses.dataclass(frozen=True)
class AppFolder:
    """apps/NAME."""

    path: Path

    @property
    def definition(self) -> Path:
        return self.path / "definition.json"

    def run(self, number: int) -> RunFolder:
        return RunFolder(self.path / "runs" / str(number))

    def runs(self) -> list[RunFolder]:
        """Oldest first, without one that is still half-made."""
        try:
            names = os.listdir(self.path / "runs")
        except (FileNotFoundError, NotADirectoryError):
            return []
        runs = [self.run(number) for number in sorted(int(n) for n in names if n.isdigit())]
        return [run for run in runs if run.config.exists()]


@dataclasses.dataclass(frozen=True)
class Home:
    """TFAPP_HOME."""

    path: Path

    @property
    def apps(self) -> Path:
        return self.path / "apps"

    @property
    def gpus(self) -> Path:
        return self.path / "gpus"

    def app(self, name: str) -> AppFolder:
        return AppFolder(self.apps / name)

    def names(self) -> list[str]:
        """All applications, sorted."""
        try:
            found = os.listdir(self.apps)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(n for n in found if not n.startswith(".") and self.app(n).runs())

    def prepare(self) -> None:
        """Makes what is missing. UnavailableError when that is impossible."""
        with writing(self.path):
            for folder in (self.path, self.apps, self.path / "locks", self.gpus):
                make_private(folder)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """The lock of application `name`; see `locked`."""
        path = self.path / "locks" / name
        with contextlib.ExitStack() as stack:
            with writing(path):
                held = stack.enter_context(locked(path))
            yield held

    def new_id(self, now: float, run: int) -> str:
        """An application id that no other application under this home has: `now` in
        milliseconds, moved on when it was given away already."""
        path = self.path / "last-id"
        with writing(path), open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # held for microseconds only
            milliseconds = max(int(now * 1000), int(file.read() or 0) + 1)
            file.seek(0)
            file.write(str(milliseconds))
        return f"application_{milliseconds}_{run:04d}"
