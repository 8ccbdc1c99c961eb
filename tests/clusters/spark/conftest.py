"""A real cluster for the tests of this folder: the one that users start for themselves. It is
started at the first of them and stopped after the last."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.lacking import lacking
from tests.waiting import wait
from tfapp.processes import Process, with_environment

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "spark-cluster" / "cluster.py"
NOT_FETCHED = (
    "Spark is not there; `python examples/spark-cluster/cluster.py build` fetches it, once, in "
    "about a minute (0.5 GB)"
)
# Of every driver: an executor on each worker, with half of its cores. So there is room for two.
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "3",
    "spark.cores.max": "6",
    # The first job begins when all executors are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def load_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_cluster_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


program = load_program()


@pytest.fixture(scope="package")
def cache() -> Path:
    """Where Spark is, unless it is this Python's own."""
    return Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()


@pytest.fixture(scope="package")
def cluster(cache, tmp_path_factory) -> Iterator[program.Cluster]:
    """Two workers with six cores and two GPUs each, in network namespaces, with Spark's
    authentication and encryption. Tests leave both workers running."""
    if reason := why_not(cache):
        lacking(f"this machine has no Spark cluster: {reason}")
    made = program.Cluster(tmp_path_factory.mktemp("cluster") / "spark", cache)
    size = program.Size(cores=6)
    made.start(size, secure=True, network=program.NAMESPACES, settings=SETTINGS)
    yield made
    ended = [name for name, runs in made.programs().items() if not runs]
    logs = [(made.folder / "log" / f"{name}.log").read_text()[-4000:] for name in ended]
    made.stop()
    assert logs == []


def package_in(cache: Path) -> Path:
    """The package pyspark, for the tests of other folders. They skip where it is not fetched."""
    there = importlib.util.find_spec("pyspark") is not None or program.folder_in(cache).is_dir()
    if not there and os.environ.get("CI") != "true":
        pytest.skip(NOT_FETCHED)
    return program.find_spark(cache, os.environ)[0]


def why_not(cache: Path) -> str:
    """What this machine lacks for the cluster, or ""."""
    if shutil.which("java") is None:
        return "java not on PATH"
    if importlib.util.find_spec("pyspark") is None and not program.folder_in(cache).is_dir():
        return NOT_FETCHED
    return program.why_no_namespaces(f"{os.environ['PATH']}:/usr/sbin:/sbin")


@dataclasses.dataclass(frozen=True)
class Drivers:
    """Starts processes that are Spark drivers on the cluster: `sys.executable`, or a command that
    comes with Spark, as spark-submit."""

    environ: Mapping[str, str]

    def run(self, *command: str | Path, limit: float = 300.0) -> str:
        """What a command prints to stdout. Its exit code is 0."""
        done = subprocess.run(**self._process(command), capture_output=True, timeout=limit)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self, *command: str | Path) -> Iterator[subprocess.Popen[str]]:
        """A process whose stdout and stderr are `stdout`. It is killed at the end of the block, and
        its JVM ends with it."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(**self._process(command), **pipes) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGKILL)

    def _process(self, command: tuple[str | Path, ...]) -> dict[str, Any]:
        return {
            "args": list(map(str, command)),
            "env": dict(self.environ),
            "cwd": ROOT,
            "stdin": subprocess.DEVNULL,
            "text": True,
        }


@pytest.fixture(scope="package")
def drivers(cluster) -> Drivers:
    """`drivers.run(sys.executable, "-c", code)`: a driver that is a process of its own."""
    return Drivers(cluster.environ())


def jvm(log: Path) -> Any:
    """A driver's JVM. One that ends at its start, as on a machine short of memory for a moment, is
    started again. What the last one printed is the failure: pyspark says only that it exited."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    for _ in range(3):
        with log.open("wb") as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # its stdin is left open
            try:
                return launch_gateway(popen_kwargs={"stdout": printed, "stderr": printed})
            except PySparkRuntimeError:
                time.sleep(5)
    pytest.fail(f"the driver's JVM ended at its start:\n{log.read_text()[-4000:]}", pytrace=False)


def close_sockets(patch: pytest.MonkeyPatch) -> None:
    """pyspark and py4j leave sockets to the garbage collector. A filter of warnings cannot help: it
    holds for a test, and threads of the driver live between two tests."""
    from py4j.clientserver import ThreadLocalConnectionFinalizer
    from pyspark import util
    from pyspark.core import context

    connect, remove = util.local_connect_and_auth, ThreadLocalConnectionFinalizer.__del__

    def closed_with_its_file(*where: Any) -> tuple[Any, Any]:
        file, socket = connect(*where)
        socket.close()
        return file, socket

    def close(finalizer: Any) -> None:
        connection = finalizer.connection()
        remove(finalizer)
        if connection is not None:
            connection.close()

    patch.setattr(util, "local_connect_and_auth", closed_with_its_file)
    patch.setattr(context, "local_connect_and_auth", closed_with_its_file)
    patch.setattr(ThreadLocalConnectionFinalizer, "__del__", close)


@pytest.fixture(scope="package")
def spark(cluster, tmp_path_factory) -> Iterator[Any]:
    """A session whose driver is this process: two executors with three slots each. A driver of
    `drivers` has two others beside it."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(cluster.library))
    for name, value in cluster.environ().items():
        patch.setenv(name, value)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    close_sockets(patch)
    SparkContext._ensure_initialized(gateway=jvm(tmp_path_factory.mktemp("driver") / "jvm.log"))
    session = (
        SparkSession.builder.appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    gateway = SparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # for its JVM, the end of the driver
    gateway.proc.wait(300)
    SparkContext._gateway = SparkContext._jvm = None
    patch.undo()


@contextlib.contextmanager
def held_slots(spark: Any, folder: Path, count: int = 6) -> Iterator[dict[Path, int]]:
    """A job of the user's holds so many slots, each until its file in `folder` is deleted. Yields
    these files, with the pids of the executors; at the end of the block none is left."""
    from pyspark import InheritableThread

    def hold(part, _, folder=str(folder)):
        import os
        import pathlib
        import time

        with open(f"/proc/{os.getppid()}/stat") as file:
            executor = file.read().rpartition(")")[2].split()[1]
        path = pathlib.Path(folder, str(part))
        path.with_suffix(".new").write_text(executor)
        path.with_suffix(".new").rename(path)
        while path.exists():
            time.sleep(0.05)
        return ()

    folder.mkdir()
    paths = [folder / str(part) for part in range(count)]
    job = spark.sparkContext.parallelize(paths, count).mapPartitionsWithIndex(hold)
    holder = InheritableThread(target=job.collect)
    holder.start()
    try:
        wait_for(lambda: all(path.exists() for path in paths), "tasks that hold slots")
        yield {path: int(path.read_text()) for path in paths}
    finally:
        shutil.rmtree(folder)  # a task that begins only now fails
        holder.join()


def coordinator(home: Path) -> Process:
    """That of the one application of `home`."""
    mark = os.fsencode(home)
    (found,) = with_environment(
        lambda env: b"TFAPP_COORDINATOR" in env and any(mark in value for value in env.values())
    )
    return found


def wait_for(ready: Callable[[], object], what: str, limit: float = 300.0) -> None:
    wait(ready, f"no {what} within {limit:g} s", limit)


@pytest.fixture
def shared(tmp_path):
    """A folder that every program here sees."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder
