"""A real cluster for the tests of this folder: the one that users start for themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.debian import alone
from tests.end_to_end.command_line import CommandLine, Ended, call
from tests.lacking import lacking
from tests.waiting import wait
from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.attempts import RECORDS, newest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAM = ROOT / "examples" / "yarn-cluster" / "cluster.py"


def load_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("yarn_cluster_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


program = load_program()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[program.Cluster]:
    """Three NodeManagers; the third has the node label. Tests leave all of them running."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing:
        lacking(f"no YARN cluster: {' and '.join(missing)} not on PATH")
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    cluster = program.Cluster(tmp_path_factory.mktemp("cluster") / "yarn", cache)
    start(cluster)
    yield cluster
    cluster.stop()


def start(cluster: program.Cluster, **size: int) -> None:
    """Starts it. Its jars are fetched by one process at a time, as Maven wants it."""
    with alone(cluster.cache):
        program.fetch_jars(cluster.cache, os.environ)
    cluster.start(program.Size(**size))


@dataclasses.dataclass(frozen=True)
class User:
    """Somebody who calls `tfapp ... --engine yarn` with a TFAPP_HOME of their own."""

    home: Path
    environ: Mapping[str, str]

    def call(self, command: str, *words: str, **kwargs) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            **self._command(command, *words, **kwargs), capture_output=True, timeout=900
        )

    def start(self, command: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            **self._command(command, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def _command(self, command: str, *words: str, **kwargs) -> dict[str, Any]:
        environ = {**self.environ, "TFAPP_HOME": str(self.home), **kwargs.pop("environ", {})}
        return {
            "args": [sys.executable, "-m", "tfapp", command, *words, "--engine", "yarn"],
            "env": environ,
            "cwd": ROOT,
            "stdin": subprocess.DEVNULL,
            "text": True,
            **kwargs,
        }

    def here(self, *words: str) -> Ended:
        """Runs a command that starts nothing, in this process."""
        environ = {**self.environ, "TFAPP_HOME": str(self.home)}
        return call((*words, "--engine", "yarn"), environ, ROOT)

    def status(self, name: str) -> dict:
        ended = self.here("status", name, "--format", "json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    def drivers(self) -> list[dict[str, Any]]:
        """The records of the Skein drivers that were started for the user."""
        records = self.home.glob("yarn/drivers/*/driver.json")
        return [json.loads(record.read_text()) for record in records]

    def end_drivers(self) -> None:
        """No driver survives the tests."""
        for driver in self.drivers():
            daemon = program.Process.of(driver["daemon"])
            daemon.send(signal.SIGTERM)
            wait_for(lambda daemon=daemon: not daemon.alive(), "end of a driver")


def wait_for(ready: Callable[[], object], what: str, limit: float = 180.0) -> None:
    wait(ready, f"no {what} within {limit:g} s", limit)


@pytest.fixture(scope="session")
def user(cluster, tmp_path_factory) -> Iterator[User]:
    user = User(tmp_path_factory.mktemp("user"), cluster.environ())
    yield user
    user.end_drivers()


@pytest.fixture(scope="session")
def colleague(cluster, tmp_path_factory) -> Iterator[User]:
    """The same person at another machine: another TFAPP_HOME."""
    user = User(tmp_path_factory.mktemp("colleague"), cluster.environ())
    yield user
    user.end_drivers()


class OnCluster(CommandLine):
    """`tfapp --engine yarn`, for what is tested on every engine alike."""

    def __init__(self, work: Path, user: User, cluster: program.Cluster):
        super().__init__(work, user.home, environ=user.environ, flags=("--engine", "yarn"))
        self._cluster = cluster

    def living(self) -> list[int]:
        """Every process in a container of the cluster."""
        return [process.pid for process in self._cluster.container_processes()]

    def left(self) -> list[int]:
        """As `living`, once YARN has had time to end the containers of ended applications."""
        wait_for(lambda: not self.living(), "end of all processes")
        return []

    def mark(self, application: Mapping[str, Any]) -> bytes:
        """A part of all its containers' ids, which a ResourceManager that was started again gives
        its own number, too."""
        number = application["id"].removeprefix("application_")
        return f"_{number}_".encode()


@pytest.fixture
def tfapp(user, cluster, tmp_path) -> Iterator[OnCluster]:
    """Afterwards none of the user's applications runs, not even where the test has failed."""
    tfapp = OnCluster(tmp_path, user, cluster)
    yield tfapp
    listed = json.loads(tfapp.asks("list", "--format", "json"))["applications"]
    running = [a["name"] for a in listed if a["live"]]
    for name in running:
        tfapp.ok("stop", name, "--force")
    assert running == []


@pytest.fixture
def nothing_left(cluster, user) -> Iterator[None]:
    """After the test no container runs, no process of one, and the staging folder is empty."""
    yield
    try:
        wait_for(lambda: cluster.metric("containersAllocated") == 0, "end of all containers")
    except AssertionError:  # else the next tests find them again
        for found in json.loads(user.call("list", "--format", "json").stdout)["applications"]:
            if found["live"]:
                user.call("stop", found["name"], "--force")
        raise
    with contextlib.suppress(AssertionError):
        wait(lambda: not cluster.container_processes(), "", 180)
    left = cluster.container_processes()
    about = [describe(process) for process in left]
    for process in left:  # else the next tests find it again
        process.send(signal.SIGKILL)
    assert about == []
    folders = staged(cluster)
    for name in folders:
        ask_for_staged(cluster, f"{name}?op=DELETE&recursive=true&", "DELETE")
    assert folders == []


def describe(process: program.Process) -> str:
    """Its state, parent, group and session, container, command line, and what it waits for."""
    place = Path(f"/proc/{process.pid}")
    with contextlib.suppress(OSError):
        command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        variables = (place / "environ").read_bytes().decode(errors="replace").split("\0")
        container = [v for v in variables if v.startswith("CONTAINER_ID=")]
        stat = (place / "stat").read_text().rpartition(")")[2].split()[:4]
        return f"{process.pid} {stat} {container} {command}\n{(place / 'wchan').read_text()}"
    return f"{process.pid} has ended meanwhile"


def recorded(cluster, application: str) -> dict[str, Any] | None:
    """The newest status in the record of YARN's application; None if there is none."""
    place = f".skein/{application}/{RECORDS}"
    found = newest(hadoop_fs.run(cluster.environ(), ["-cat", place]).out)
    return None if found is None else json.loads(found)


def staged(cluster) -> list[str]:
    try:
        found = ask_for_staged(cluster, "?op=LISTSTATUS&")["FileStatuses"]["FileStatus"]
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
        return []
    return [file["pathSuffix"] for file in found]


def ask_for_staged(cluster, what: str, method: str = "GET") -> dict[str, Any]:
    """Asks the name node for something in the folder of Skein's drivers."""
    web = cluster._ports()["namenode_web"]
    user = program.user()
    url = f"http://127.0.0.1:{web}/webhdfs/v1/user/{user}/.skein/{what}user.name={user}"
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
        return json.load(answer)
