"""A Docker engine of the tests' own: nothing of it is installed, and nothing is left of it.

Debian's packages are unpacked into a cache folder, unless this machine has `dockerd` already. The
engine has its own socket, data and state; it touches no network and no other engine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.debian import (
    BUILD_LIMIT,
    Packages,
    UnavailableError,
    alone,
    building,
    read_os_release,
    run,
)
from tests.waiting import wait

PACKAGES = ("docker.io", "debootstrap", "docker-registry")
PROGRAMS = ("dockerd", "containerd", "runc", "docker-init", "debootstrap", "docker-registry")
# The image's own Python is Debian's; a program that is linked with C++ needs the library.
BASE_PACKAGES = ("python3", "libstdc++6")
BASE = "tfapp-test/base:1"  # Debian with a Python
EMPTY = "tfapp-test/empty:1"  # one file that is no program

START_LIMIT = 120.0
STOP_LIMIT = 60.0
COMMAND_LIMIT = 300.0  # a push of the base image may take minutes on a slow machine


def check_machine() -> None:
    """UnavailableError when there is no point in trying."""
    if not sys.platform.startswith("linux"):
        raise UnavailableError("an engine of the tests' own needs Linux")
    if os.geteuid() != 0:
        raise UnavailableError("an engine of the tests' own needs root")


class Engine:
    """An engine in `folder`, with its packages and its base image in `cache`."""

    def __init__(self, folder: Path, cache: Path):
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.log = folder / "dockerd.log"
        self.host = f"unix://{self.socket}"
        self._tools = Tools(cache / "docker")
        self._containerd: subprocess.Popen | None = None
        self._daemon: subprocess.Popen | None = None

    def start(self) -> None:
        """Returns once it answers and has its images. UnavailableError when it cannot be."""
        check_machine()
        self._tools.prepare()
        self.folder.mkdir(parents=True, exist_ok=True)
        address = str(self.folder / "containerd.sock")
        self._containerd = self._launch(
            *("containerd", "--address", address, "--log-level", "warn"),
            *("--root", str(self.folder / "containerd"), "--state", str(self.folder / "state")),
        )
        eventually(lambda: os.path.exists(address), START_LIMIT, f"no containerd, see {self.log}")
        self.start_daemon()
        for name, archive in ((BASE, self._tools.base_image()), (EMPTY, self._empty_image())):
            self.docker("import", str(archive), name)

    def start_daemon(self) -> None:
        """Starts dockerd, again after `end_daemon`."""
        self._daemon = daemon = self._launch(
            *("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"),
            *("--containerd", str(self.folder / "containerd.sock"), "--log-level", "warn"),
            *("--host", self.host, "--pidfile", str(self.folder / "docker.pid")),
            *("--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")),
        )

        def ready() -> bool:
            assert daemon.poll() is None, self.log.read_text()[-2000:]
            return self.answers()

        eventually(ready, START_LIMIT, f"no answer from dockerd, see {self.log}")

    def stop(self) -> None:
        """Ends the engine with all of its containers, and deletes its folder."""
        try:
            if self.answers():
                for id in self.containers():
                    self.docker("rm", "--force", id)
        finally:
            self.end_daemon(signal.SIGTERM)
            if self._containerd is not None:
                end(self._containerd, signal.SIGTERM)
            unmount_below(self.folder)
            shutil.rmtree(self.folder, ignore_errors=not self.folder.exists())

    def end_daemon(self, number: int) -> None:
        """Sends dockerd a signal and waits until it is gone. After SIGKILL containers go on."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            end(daemon, number)

    def signal_daemon(self, number: int) -> None:
        assert self._daemon is not None, "the engine runs"
        self._daemon.send_signal(number)

    def containers(self) -> list[str]:
        return self.docker("ps", "--all", "--quiet", "--no-trunc").split()

    def docker(self, *words: str) -> str:
        done = subprocess.run(
            ["docker", *words],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def environ(self) -> dict[str, str]:
        """This process's environment, with the engine and its programs in it."""
        return {**self._tools.environ(), "DOCKER_HOST": self.host}

    def answers(self) -> bool:
        done = subprocess.run(["docker", "version"], env=self.environ(), capture_output=True)
        return done.returncode == 0

    def _launch(self, *command: str) -> subprocess.Popen:
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                command,
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _empty_image(self) -> Path:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            Path(folder, "empty").write_text("no program\n")
            archive = self.folder / "empty.tar"
            run(["tar", "-C", folder, "-cf", str(archive), "."], START_LIMIT)
        return archive


class Tools(Packages):
    """Docker's programs and the base image's content, in a folder that is kept between runs."""

    def __init__(self, cache: Path):
        super().__init__(cache, PACKAGES, PROGRAMS)
        self._codename = read_os_release().get("VERSION_CODENAME", "")

    def environ(self) -> dict[str, str]:
        """See Packages.environ."""
        scripts = self.root / "usr/share/debootstrap"
        more = {"DEBOOTSTRAP_DIR": str(scripts)} if scripts.is_dir() else {}
        return {**super().environ(), **more}

    def base_image(self) -> Path:
        """A tar of a small Debian of this machine's own release, whose libraries this machine's
        Python finds where it expects them."""
        archive = self._cache / f"base-{'-'.join(BASE_PACKAGES)}.tar"
        with alone(self._cache):
            if not archive.is_file():
                self._make_base_image(archive)
        return archive

    def _make_base_image(self, archive: Path) -> None:
        if not self._codename:
            raise UnavailableError("this machine is no Debian: there is no base image for it")
        with building(self._cache / "base") as folder:
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}"]
            try:
                run([*command, self._codename, str(folder), *mirror()], BUILD_LIMIT, self.environ())
            finally:
                unmount_below(folder)
            unfinished = archive.with_suffix(".new")
            run(["tar", "-C", str(folder), "-cf", str(unfinished), "."], BUILD_LIMIT)
            unfinished.rename(archive)
        shutil.rmtree(self._cache / "base")


def end(process: subprocess.Popen, number: int) -> None:
    """Sends a signal and waits; after a while SIGKILL."""
    process.send_signal(number)
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_LIMIT)


def mirror() -> list[str]:
    """The sources of this machine's packages; [] leaves it to debootstrap."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        timeout=START_LIMIT,
    )
    return done.stdout.split()[:1]


def unmount_below(folder: Path) -> None:
    """Unmounts all that is mounted at or below `folder`, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    inside = [point for point in points if Path(point) == folder or folder in Path(point).parents]
    for point in reversed(inside):
        subprocess.run(["umount", "--lazy", point], check=True)


def processes_with(*words: str) -> list[int]:
    """Pids of the processes that have all of `words` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if all(word.encode() in line for word in words):
            found.append(int(path.name))
    return [pid for pid in found if pid != os.getpid()]


def eventually(condition: Callable[[], bool], limit: float, otherwise: str) -> None:
    """Waits until `condition` holds."""
    wait(condition, otherwise, limit, every=0.05)
