"""A real cluster for the tests of this folder: the one that users start for themselves."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.debian import alone
from tests.end_to_end.command_line import CommandLine

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = ROOT / "examples" / "yarn-cluster" / "cluster.py"


def load_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("yarn_cluster_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


program = load_program()


def pytest_configure(config):
    config.addinivalue_line("markers", "yarn: runs on a real YARN cluster, started by the tests")


def pytest_collection_modifyitems(items):
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.yarn)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[program.Cluster]:
    """Three NodeManagers; the third has the node label. Tests leave all of them running."""
    lacking = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if lacking:
        reason = f"no YARN cluster: {' and '.join(lacking)} not on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
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
        """Runs a command to its end."""
        return subprocess.run(
            **self._command(command, *words, **kwargs), capture_output=True, timeout=900
        )

    def start(self, command: str, *words: str) -> subprocess.Popen[str]:
        """Begins a command."""
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

    def status(self, name: str) -> dict:
        """What `tfapp status --format json` says."""
        done = self.call("status", name, "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def drivers(self) -> list[dict[str, Any]]:
        """What is known of the Skein drivers that were started for the user."""
        records = self.home.glob("yarn/drivers/*/driver.json")
        return [json.loads(record.read_text()) for record in records]

    def end_drivers(self) -> None:
        """No driver survives the tests."""
        for driver in self.drivers():
            keeper = program.Process.of(driver["keeper"])
            keeper.send(signal.SIGTERM)
            wait_for(lambda keeper=keeper: not keeper.alive(), "end of a driver")


def wait_for(ready: Callable[[], object], what: str, limit: float = 180.0) -> None:
    deadline = time.monotonic() + limit
    while not ready():
        assert time.monotonic() < deadline, f"no {what} within {limit:g} s"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def user(cluster, tmp_path_factory) -> Iterator[User]:
    """The user who submits."""
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
        super().__init__(work, user.home)
        self._environ = user.environ
        self._cluster = cluster

    def start(
        self, *words: object, environ: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen:
        environ = {**self._environ, "TFAPP_HOME": str(self.home), **(environ or {})}
        return super().start(*words, "--engine", "yarn", environ=environ, **popen)

    def living(self) -> list[int]:
        """Every process in a container of the cluster."""
        return [process.pid for process in self._cluster.container_processes()]

    def left(self) -> list[int]:
        """As `living`, once YARN has had time to end the containers of ended applications."""
        wait_for(lambda: not self.living(), "end of all processes")
        return []

    def mark(self, application: Mapping[str, Any]) -> bytes:
        """The beginning of all its containers' ids."""
        number = application["id"].removeprefix("application_")
        return f"CONTAINER_ID=container_{number}_".encode()


@pytest.fixture
def tfapp(user, cluster, tmp_path) -> Iterator[OnCluster]:
    """Afterwards none of the user's applications runs, not even where the test has failed."""
    tfapp = OnCluster(tmp_path, user, cluster)
    yield tfapp
    running = [a["name"] for a in json.loads(tfapp.ok("list", "--format", "json")) if a["live"]]
    for name in running:
        tfapp.ok("stop", name, "--force")
    assert running == []


@pytest.fixture
def nothing_left(cluster) -> Iterator[None]:
    """After the test no container runs, no process of one either, and the staging folder is
    empty."""
    yield
    wait_for(lambda: cluster.metric("containersAllocated") == 0, "end of all containers")
    wait_for(lambda: not cluster.container_processes(), "end of all processes")
    assert staged(cluster) == []


def staged(cluster) -> list[str]:
    """What is in the staging folder."""
    done = subprocess.run(
        ["hdfs", "dfs", "-ls", "-C", ".skein"],
        env=cluster.environ(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    return done.stdout.split()
