"""Programs of Debian's packages, for tests that need services of their own: none is installed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

BUILD_LIMIT = 900.0  # seconds


class UnavailableError(Exception):
    """This machine cannot have it; the text says why."""


class Packages:
    """`programs` of `packages`, unpacked into a folder of `cache` that is kept between runs,
    unless this machine has them already."""

    def __init__(self, cache: Path, packages: Sequence[str], programs: Sequence[str]):
        self._cache = cache / (read_os_release().get("VERSION_CODENAME") or "unknown")
        self._packages = packages
        self._programs = programs

    @property
    def root(self) -> Path:
        """The folder in which they are unpacked. It need not exist."""
        return self._cache / "root"

    def prepare(self) -> None:
        """Has every program. UnavailableError when it cannot be had."""
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        if all(shutil.which(name, path=path) for name in self._programs):
            return
        with alone(self._cache.parents[1]):  # apt-get, too, runs once at a time
            if not self.root.is_dir():
                self._unpack()

    def _unpack(self) -> None:
        if shutil.which("apt-get") is None:
            raise UnavailableError(f"{', '.join(self._packages)} come by apt-get")
        self._cache.mkdir(parents=True, exist_ok=True)
        with building(self.root) as root:
            archives = root / "archives"
            (archives / "partial").mkdir(parents=True)
            get = ["apt-get", "-o", f"Dir::Cache::archives={archives}"]
            fetch = [*get, "install", "--yes", "--no-install-recommends", "--download-only"]
            try:
                run([*fetch, *self._packages], BUILD_LIMIT)
            except UnavailableError:  # the lists of packages may be old, or missing
                run([*get, "update"], BUILD_LIMIT)
                run([*fetch, *self._packages], BUILD_LIMIT)
            for package in sorted(archives.glob("*.deb")):
                run(["dpkg", "--extract", str(package), str(root)], BUILD_LIMIT)
            shutil.rmtree(archives)

    def environ(self) -> dict[str, str]:
        """This process's environment, with the programs on its PATH."""
        folders = [str(self.root / name) for name in ("usr/bin", "usr/sbin", "bin", "sbin")]
        libraries = [*self.root.glob("usr/lib/*-linux-gnu"), *self.root.glob("lib/*-linux-gnu")]
        return {
            **os.environ,
            "PATH": ":".join((*folders, os.environ["PATH"], "/usr/sbin", "/sbin")),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        }


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process is in here for `folder`, which is made where it is missing.
    UnavailableError when one stays for too long."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + BUILD_LIMIT
    lock = os.open(folder, os.O_RDONLY)
    try:
        while not _locked(lock):
            if time.monotonic() > end:
                raise UnavailableError(f"another process has {folder} for {BUILD_LIMIT:g} s")
            time.sleep(0.1)
        yield
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A folder that takes the name `folder` when it is complete, and is deleted when it is not."""
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def run(command: Sequence[str], limit: float, environ: dict[str, str] | None = None) -> None:
    """UnavailableError when it fails, with the end of what it said."""
    done = subprocess.run(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=limit,
    )
    if done.returncode:
        raise UnavailableError(f"{' '.join(command)} failed: {done.stdout[-2000:]}")


def read_os_release() -> dict[str, str]:
    """/etc/os-release, {} where there is none."""
    path = Path("/etc/os-release")
    lines = path.read_text().splitlines() if path.is_file() else []
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip('"') for name, _, value in pairs}
