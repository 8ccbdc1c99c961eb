"""Applications on the executors of a real cluster, and what can happen to them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import urllib.request
import venv
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

import tfapp
from benchmarks import spark_cluster as benchmarks
from tests import python_environments
from tests.clusters.spark.conftest import SETTINGS, Drivers, coordinator, wait_for
from tests.clusters.spark.conftest import program as spark_cluster
from tests.clusters.spark.test_cluster import executors
from tests.end_to_end.command_line import PLAIN_PACKAGE, STAMP, CommandLine, call
from tests.end_to_end.sessions import (
    VERY_LARGE,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
)
from tests.engines.applications import eventually
from tests.lacking import lacking
from tests.masters import keep_away
from tfapp.engines import open_engine
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state
from tfapp.errors import ApplicationFailedError, UnavailableError, UsageError
from tfapp.processes import identify, is_alive, send, tree, with_environment
from tfapp.ready import ready

TWO = {"worker": tfapp.Component("256 MiB", instances=2)}


def parents(pid: int) -> list[tuple[int, str]]:
    """A process and all above it, the nearest first, with their command lines."""
    found = []
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found.append((pid, words))
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def above(pid: int, what: str) -> int:
    """The nearest process above with `what` in its command line."""
    return next(p for p, words in parents(pid) if what in words)


def names_in_the_ui(spark, jobs) -> list[str]:
    """What Spark's UI shows them as."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return sorted(store.job(job).description().get() for job in jobs)


def living() -> list[int]:
    """Processes of containers on executors."""
    done = subprocess.run(["pgrep", "-f", "/keeper.py"], capture_output=True)
    return [int(pid) for pid in done.stdout.split()]


@pytest.fixture
def program(shared):
    """A program that waits in generation 1, and what tells its processes' ids."""

    def train(ctx, shared=str(shared)):
        import os
        import pathlib
        import time

        generation = os.environ["TFAPP_GENERATION"]
        pathlib.Path(shared, f"{ctx.role}-{ctx.index}-{generation}").write_text(str(os.getpid()))
        while generation == "1" and not pathlib.Path(shared, "go").exists():
            time.sleep(0.05)
        return generation

    def pids(names=("worker-0-1", "worker-1-1")):
        paths = [shared / name for name in names]
        eventually(lambda: all(path.exists() and path.read_text() for path in paths))
        return [int(path.read_text()) for path in paths]

    return train, pids


@pytest.fixture
def waiting(program):
    return program[0]


@pytest.fixture
def pids(program):
    return program[1]


def test_two_workers_and_a_process_beside_the_driver(spark, shared, waiting, pids, tmp_path):
    """The workers have an environment of their own."""
    environment = python_environments.make(tmp_path / "env")
    archive = python_environments.pack(environment, tmp_path / "env.tgz")
    packed = {"site.global.python.archive": str(archive)}
    components = {
        "worker": tfapp.Component("256 MiB", instances=2, options=packed),
        "evaluator": tfapp.Component("256 MiB", options={"site.global.spark.on.driver": True}),
    }
    with tfapp.submit(waiting, components, spark=spark, name="app", show=False) as application:
        *workers, evaluator = pids(("worker-0-1", "worker-1-1", "evaluator-0-1"))
        for pid in workers:
            assert above(pid, "CoarseGrainedExecutorBackend")
        assert not any("CoarseGrainedExecutor" in words for _, words in parents(evaluator))
        own = ["/tfapp-python/bin/python" in parents(p)[0][1] for p in (*workers, evaluator)]
        assert own == [True, True, False]
        states = {"RUNNING"}
        eventually(lambda: {i.state for i in application.status().instances} == states)
        found = application.stacks()
        assert (len(found.instances), found.missing) == (3, ()), found
        assert all("train at " in one.place for one in found.instances), found
        tracker = spark.sparkContext.statusTracker()
        jobs = tracker.getActiveJobsIds()
        assert names_in_the_ui(spark, jobs) == ["app worker/0", "app worker/1"]
        (shared / "go").touch()
        assert application.wait().state == "SUCCEEDED"
        assert application.logs("worker/1")["worker/1"].endswith("exit code 0\n")
    eventually(lambda: not tracker.getActiveJobsIds())
    wait_for(lambda: not living(), "end of all containers")


def test_it_shrinks_and_grows(spark, shared, waiting, pids):
    with tfapp.submit(waiting, TWO, spark=spark, name="app", show=False) as application:
        pids()
        application.flex("worker", 3)
        eventually(lambda: (shared / "worker-2-2").exists())
        assert application.wait().state == "SUCCEEDED"
        assert len(application.status().instances) == 3


@pytest.mark.parametrize("what", ["tfapp-runtime runner", "keeper.py", "pyspark.daemon"])
def test_a_process_above_a_program_is_killed(spark, waiting, pids, what):
    """Of killed programs and executors, test_feed.py and test_cluster.py tell."""
    with tfapp.submit(waiting, TWO, spark=spark, name="app", show=False) as application:
        os.kill(above(pids()[1], what), signal.SIGKILL)
        assert application.wait().state == "SUCCEEDED"
        status = application.status()
    assert status.generation == 2, status
    # What takes the container away is a loss of infrastructure, not a failure of the program.
    assert status.restarts == (1 if "runner" in what else 0), status


def test_the_master_is_killed(spark, shared, waiting, pids, tfapp_home):
    """Another one goes on with the same programs: their keepers and the driver's agent find it."""
    run = Home(tfapp_home / "spark").app("app").run(1)
    with tfapp.submit(waiting, TWO, spark=spark, name="app", show=False) as application:
        before, lost = pids(), read_state(run)
        os.kill(lost.process.pid, signal.SIGKILL)
        eventually(lambda: read_state(run) != lost)
        assert all(map(identify, before))
        (shared / "go").touch()
        assert application.wait().state == "SUCCEEDED"
        status = application.status()
        logs = application.logs()
    assert (status.generation, status.losses, status.restarts) == (1, 0, 0), status
    said = "the application's master was lost and is back; the programs went on"
    assert said in [moment.text for moment in status.timeline]
    assert all(text.endswith("exit code 0\n") for name, text in logs.items() if "worker" in name)


def test_the_coordinator_is_killed(spark, shared, waiting, pids, tfapp_home):
    """Another one goes on with the same programs."""
    log = Home(tfapp_home / "spark").app("app").run(1).driver_log
    with tfapp.submit(waiting, TWO, spark=spark, name="app", show=False) as application:
        before = pids()
        os.kill(coordinator(tfapp_home).pid, signal.SIGKILL)
        eventually(lambda: "another one goes on" in log.read_text())
        assert all(map(identify, before))
        (shared / "go").touch()
        assert application.wait().state == "SUCCEEDED"
        status = application.status()
    assert (status.generation, status.losses, status.restarts) == (1, 0, 0), status


def test_a_job_is_cancelled(spark, waiting, pids):
    with tfapp.submit(waiting, TWO, spark=spark, name="app", show=False) as application:
        pids()
        spark.sparkContext.cancelAllJobs()
        assert application.wait().state == "SUCCEEDED"
        status = application.status()
        # Spark ends one task after the other. One that ends late may be in the next generation yet.
        assert (status.restarts, status.generation) == (0, status.losses + 1)
        assert status.losses in (1, 2)


class Shell:
    """A program in a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int):
        self._process, self._terminal, self.said = process, terminal, ""

    def say(self, words: str, wanted: str) -> None:
        """Types a line and waits for what it must print."""
        self.said = ""
        os.write(self._terminal, f"{words}\n".encode())
        self.hear(wanted)

    def interrupt(self) -> None:
        """Presses Ctrl-C and waits for its exception. A Python hears of one that comes a moment
        before it waits for a line at the next key: here Ctrl-C again."""
        self.said = ""
        for limit in (30.0, 300.0):
            os.write(self._terminal, b"\x03")
            with contextlib.suppress(AssertionError):
                return self.hear("KeyboardInterrupt", limit)
        raise AssertionError(self.said)

    def hear(self, wanted: str, limit: float = 300.0) -> None:
        deadline = time.monotonic() + limit
        while wanted not in self.said:
            left = max(0.0, deadline - time.monotonic())
            assert ready([self._terminal], seconds=left)[0], self.said
            try:
                self.said += os.read(self._terminal, 1 << 16).decode(errors="replace")
            except OSError:  # the program has ended
                raise AssertionError(self.said) from None


@contextlib.contextmanager
def terminal(command, environ):
    """A program in a terminal of its own, which is killed at the end of the block."""
    own, other = pty.openpty()
    pipes = {"stdin": other, "stdout": other, "stderr": other}
    with subprocess.Popen(
        command, env=environ, **pipes, start_new_session=True, preexec_fn=lambda: take(0)
    ) as process:
        os.close(other)
        try:
            yield Shell(process, own)
        finally:
            process.kill()
            os.close(own)


def take(terminal):
    """Makes it the terminal of this session, whose Ctrl-C is SIGINT."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


SHELL = """
import pathlib, time, tfapp, tfapp.engines.spark.driver
tfapp.engines.spark.driver.LOOK_EVERY = 0.1  # its connection to Java is there, and idle
go = pathlib.Path(__file__).with_name("go")

def wait(ctx, go=str(go)):
    import os, time
    while not os.path.exists(go):
        time.sleep(0.05)

def sleep(_, begun=str(go.with_name("begun"))):
    import time
    open(begun, "w").close()
    time.sleep(600)

one = {"worker": tfapp.Component("256 MiB")}
app = tfapp.submit(wait, one, spark=spark, name="app", show=False)
app.wait_until_running(300)
jobs = lambda: len(sc.statusTracker().getActiveJobsIds())
print("up", jobs())
"""


@pytest.mark.weekly
def test_ctrl_c_in_a_shell_spares_what_tfapp_runs(cluster, drivers, tfapp_home, tmp_path):
    """At the prompt of a real pyspark, and in the middle of a job of the user's, which ends."""
    (tmp_path / "program.py").write_text(SHELL)
    tmp_path.chmod(0o777)
    spark_home = cluster.library / "pyspark"
    environ = {**drivers.environ, "TFAPP_HOME": str(tfapp_home), "SPARK_HOME": str(spark_home)}
    path = f"{cluster.library}:{os.getcwd()}"
    environ = {**environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}
    with terminal([spark_home / "bin" / "pyspark"], environ) as shell:
        shell.hear("SparkSession available")
        shell.say(f"__file__ = '{tmp_path}/program.py'; exec(open(__file__).read())", "up 1")
        shell.interrupt()
        # Java tells of the end of a job a moment later.
        shell.say("spark.range(7).count(), all(iter(jobs, 1))", "(7, True)")
        for _ in range(3):
            shell.say("sc.parallelize([0], 1).map(sleep).count()", "")
            wait_for((tmp_path / "begun").exists, "the job")
            (tmp_path / "begun").unlink()
            shell.interrupt()
            shell.say("all(iter(jobs, 1)), time.sleep(2), jobs()", "(True, None, 1)")
        shell.say("app.status().generation", "\r\n1\r\n")
        shell.say("go.touch(), app.result().restarts, app.status().state", "(None, 0, 'SUCCEEDED')")


@pytest.mark.weekly
def test_machines_that_do_not_answer(cluster, spark, shared, waiting, pids):
    """The worker of one instance is paused, that of the other is cut off: one executor ends when
    Spark has given up its worker, the other goes on. Both instances run again on the first."""
    wait_for(lambda: len(cluster.web()["activeapps"]) == 1, "end of another test's driver")
    for worker in (1, 2):  # where another test has left both executors on one
        for executor in cluster.executors(worker)[1:]:
            executor.send(signal.SIGKILL)
    wait_for(lambda: all(len(cluster.executors(worker)) == 1 for worker in (1, 2)), "one on each")
    large = {"worker": tfapp.Component("256 MiB", instances=2, vcores=2)}  # one on an executor
    with tfapp.submit(waiting, large, spark=spark, name="app", show=False) as application:
        pids()
        hosts = {"paused": cluster.address("worker1"), "cut": cluster.address("worker2")}
        assert {i.host for i in application.status().instances} == set(hosts.values())
        (executor,) = cluster.executors(1)
        cluster.pause_worker(1)
        cluster.cut_worker(2)
        try:
            wait_for(lambda: not executor.alive(), "end of the executor of the paused worker")
            cluster.resume_worker(1)
            assert application.wait().state == "SUCCEEDED"
            status = application.status()
        finally:
            cluster.resume_worker(1)
            cluster.join_worker(2)
    assert {i.host for i in status.instances} == {hosts["paused"]}
    assert (status.restarts, status.losses > 0) == (0, True), status
    said = "\n".join(moment.text for moment in status.timeline)
    assert f"Spark has ended its task on {hosts['paused']}" in said
    assert f"the connection to {hosts['cut']} is lost" in said
    wait_for(lambda: not living(), "end of all containers, those of the cut worker too")
    wait_for(lambda: len(cluster.registered()) == 2, "both workers")
    wait_for(lambda: executors(spark) == 2, "both executors")


def test_more_containers_than_slots(spark, shared, waiting):
    """Six slots: the seventh waits, and its reason is told."""
    seven = {"worker": tfapp.Component("256 MiB", instances=7)}
    with pytest.raises(tfapp.errors.InvalidPackageError, match="at most 6 tasks at a time"):
        tfapp.submit(waiting, seven, spark=spark, name="app", show=False)
    held = spark.sparkContext.parallelize(range(5), 5)
    limits = {"site.global.gang.timeout": 2, "site.global.queue.timeout": 40}
    more = {"spark": spark, "show": False, "options": limits}

    def hold(_, shared=str(shared)):
        import pathlib
        import time

        while not pathlib.Path(shared, "go").exists():
            time.sleep(0.05)

    from pyspark import InheritableThread

    holder = InheritableThread(target=lambda: held.foreachPartition(hold))
    holder.start()
    try:
        eventually(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 1)
        with tfapp.submit(waiting, TWO, name="app", **more) as application:
            ended = application.wait()
        assert ended.verdict.exit_code == 67
        assert "waiting for a slot of Spark: its executors have 6, " in ended.verdict.summary
        # One had a slot, and gave it back.
        assert "given-back" in {moment.kind for moment in ended.timeline}
    finally:
        (shared / "go").touch()
        holder.join()


def test_the_python_of_executors_is_unfit(spark, waiting, tmp_path, monkeypatch):
    """One without libraries, one that is not there, one of another version than the driver's."""
    monkeypatch.setattr("tfapp.engines.spark.executor_python._FIT", set())
    context = spark.sparkContext

    def refused(what):
        with pytest.raises(tfapp.errors.InvalidPackageError, match=what):
            tfapp.submit(waiting, TWO, spark=spark, name="app", show=False)

    venv.create(tmp_path / "bare")
    bare = tmp_path / "bare" / "bin" / "python"
    with monkeypatch.context() as patch:
        patch.setattr(context, "pythonExec", str(bare))
        lacks = f"Python {bare} of an executor lacks grpcio, protobuf, which tfapp needs"
        refused(lacks)
        found = call(["doctor", "--engine", "spark"], os.environ, tmp_path)
        assert f"problem  executors: {lacks}\n" in found.out
        assert found.code == UnavailableError.exit_code
        patch.setattr(context, "pythonExec", "/nonexistent/python")
        refused('Python cannot run there: .*Cannot run program "/nonexistent/python"')
    with monkeypatch.context() as patch:
        patch.setattr(context, "pythonVer", "2.7")
        refused("Python cannot run there: .*in worker has different version")
    for executable, said in (("/bin/false", ""), ("/nonexistent", "cannot be started: No such")):
        options = {"site.global.python.executable": executable}
        with pytest.raises(tfapp.errors.InvalidPackageError, match=f"{executable} of an .*{said}"):
            tfapp.submit(waiting, TWO, spark=spark, name="app", show=False, options=options)


def test_the_python_of_executors_breaks_after_it_was_asked(
    spark, shared, waiting, tmp_path, monkeypatch
):
    """Once, and Spark's next attempt is the container. Each time, and the application has failed:
    that is no loss of infrastructure."""
    monkeypatch.setattr("tfapp.engines.spark.preflight.unfit", lambda *_: "")
    (shared / "go").touch()

    def run(name, line):
        python = tmp_path / name
        python.write_text(f'#!/bin/sh\n{line}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
        one = {"worker": tfapp.Component("256 MiB")}
        return tfapp.run(waiting, one, spark=spark, name="app", replace=True, show=False)

    result = run("fails-once", f"mkdir {tmp_path}/failed 2> /dev/null && exit 1")
    assert (result.state, result.restarts, result.losses) == ("SUCCEEDED", 0, 0)
    assert (tmp_path / "failed").is_dir()
    fails = pytest.raises(ApplicationFailedError, match="could not be started .*broken library")
    with fails:
        run("fails", "echo a broken library >&2; exit 1")


def test_wrong_sessions(spark, waiting):
    with pytest.raises(UsageError, match="spark= is a str"):
        tfapp.submit(waiting, TWO, spark="spark://host:7077", name="app", show=False)
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UsageError, match="spark= is a session of Spark Connect"):
        tfapp.submit(waiting, TWO, spark=connect, name="app", show=False)
    with pytest.raises(UsageError, match="is for the engine spark, and this is local"):
        tfapp.submit(waiting, TWO, spark=spark, engine="local", name="app", show=False)


# ---- Drivers that are processes of their own ---------------------------------------------------

DRIVER = """
import pathlib, sys, threading, time
from pyspark.sql import SparkSession
import tfapp

builder = SparkSession.builder
for setting in sys.argv[2:]:
    builder = builder.config(*setting.split("="))
spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()

def train(ctx, shared=sys.argv[1]):
    import os, pathlib, signal, time
    place = pathlib.Path(shared, f"{ctx.role}-{ctx.index}")
    asked = pathlib.Path(shared, f"asked-{place.name}")
    signal.signal(signal.SIGTERM, lambda *_: (asked.touch(), os._exit(0)))
    told = os.environ["CUDA_VISIBLE_DEVICES"] + " on " + os.readlink("/proc/self/ns/net")
    place.write_text(place.read_text() + " again" if place.exists() else told)
    while not pathlib.Path(shared, "go").exists():
        time.sleep(0.05)

gpus = int(spark.conf.get("spark.executor.resource.gpu.amount", "0"))
parts = {
    "worker": tfapp.Component("256 MiB", instances=2, gpus=1 if gpus else 0),
    "evaluator": tfapp.Component("256 MiB", options={"site.global.spark.on.driver": True}),
}
print(spark.version)

def stop(told=pathlib.Path(sys.argv[1], "stop")):
    while not told.exists():
        time.sleep(0.05)
    spark.stop()

threading.Thread(target=stop, daemon=True).start()
more = {"name": "app", "show": False, "options": {"site.global.master.attempts": 20}}
print(tfapp.run(train, parts, spark=spark, **more).state)
"""


@pytest.fixture
def driver(drivers, shared, tmp_path):
    """Starts a driver, on the cluster of all tests or on another one; ends it."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    with contextlib.ExitStack() as stack:

        def start(*settings, drivers=drivers):
            environ = {**drivers.environ, "TFAPP_HOME": os.environ["TFAPP_HOME"]}
            own = dataclasses.replace(drivers, environ=environ)
            return stack.enter_context(own.running(sys.executable, script, shared, *settings))

        yield start


@pytest.fixture
def other_spark(cluster, tmp_path):
    """A cluster of Spark 3.5 beside that of all tests."""
    version = "3.5.9"
    if not spark_cluster.folder_in(cluster.cache, version).is_dir():
        fetch = f"`python examples/spark-cluster/cluster.py build --spark {version}` fetches it"
        lacking(f"this machine has no Spark {version}: {fetch}")
    other = spark_cluster.Cluster(tmp_path / "other", cluster.cache)
    size = spark_cluster.Size(workers=1)
    other.start(size, secure=True, version=version, settings=SETTINGS)
    yield Drivers(other.environ())
    other.stop()


# One executor, wherever there is room for it, with the GPUs that the worker's script has found.
GPUS = ("spark.executor.resource.gpu.amount=2", "spark.cores.max=3")


def await_programs(shared):
    there = [shared / name for name in ("worker-0", "worker-1", "evaluator-0")]
    wait_for(lambda: all(path.exists() for path in there), "programs")


def await_gpus(shared):
    """Each of two programs on the same machine has a GPU of its own."""

    def texts():
        return [path.read_text() for path in shared.glob("worker-*")]

    wait_for(lambda: sum(" on " in text for text in texts()) == 2, "programs")
    (first, here), (second, there) = sorted(text.split(" on ") for text in texts())
    assert (first, second, here) == ("0", "1", there)


@pytest.mark.weekly
def test_spark_3_5(driver, other_spark, shared):
    process = driver(*GPUS, drivers=other_spark)
    await_gpus(shared)
    (shared / "go").touch()
    said = process.communicate(timeout=300)[0]
    assert "SUCCEEDED" in said.splitlines(), said  # Spark may say more at its end
    assert "\n3.5.9\n" in f"\n{said}"


def ended(home, summary):
    """The application has failed, for that reason, and nothing is left of it."""
    wait_for(lambda: not living(), "end of all containers")
    engine = open_engine("spark", home, os.environ)
    wait_for(lambda: not engine.find("app").live, "the verdict")
    found = engine.find("app").status
    assert (found.state, found.verdict.summary) == ("FAILED", summary)
    assert (found.generation, found.losses, found.restarts) == (1, 0, 0)
    mark = os.fsencode(home / "spark")
    has_it = lambda env: any(mark in value for value in env.values())  # noqa: E731
    wait_for(lambda: not with_environment(has_it), "end of all beside the driver")


@pytest.mark.weekly
def test_spark_starts_nothing_a_second_time(driver, shared, tfapp_home):
    """Its speculation begins a second task beside each that takes more than a second. At last the
    driver stops its context in the middle."""
    process = driver(
        "spark.speculation=true",
        "spark.speculation.interval=100ms",
        "spark.speculation.task.duration.threshold=1s",
    )
    await_programs(shared)
    time.sleep(4)
    assert not any("again" in path.read_text() for path in shared.glob("worker-*"))
    (shared / "stop").touch()
    said = process.communicate(timeout=300)[0]
    assert "ApplicationFailedError: The SparkContext was stopped." in said
    ended(tfapp_home, "The SparkContext was stopped.")


@pytest.mark.weekly
def test_the_session_is_stopped_while_the_master_hangs(driver, shared, tfapp_home):
    """The next master hears it from the driver."""
    process = driver()
    await_programs(shared)
    hung = read_state(Home(tfapp_home / "spark").app("app").run(1)).process
    send(hung, signal.SIGSTOP)
    (shared / "stop").touch()
    said = process.communicate(timeout=300)[0]
    assert "ApplicationFailedError: The SparkContext was stopped." in said
    ended(tfapp_home, "The SparkContext was stopped.")
    assert not is_alive(hung)


def test_the_driver_ends(driver, shared, tfapp_home):
    process = driver(*GPUS)
    await_gpus(shared)
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    ended(tfapp_home, "The Spark driver has ended.")


@pytest.mark.weekly
@pytest.mark.parametrize("how", ["is killed", "hangs", "stays away"])
def test_the_driver_ends_while_the_master_is_lost(driver, shared, tfapp_home, how):
    """Programs on executors end with their tasks, and have their grace. The next master waits for
    the driver, and not for so long that it begins another generation."""
    process, run = driver(), Home(tfapp_home / "spark").app("app").run(1)
    await_programs(shared)
    lost = read_state(run).process
    with contextlib.ExitStack() as until:
        if how == "stays away":
            away = threading.Thread(target=keep_away, args=(run,))
            away.start()
            until.callback(away.join)
            wait_for(lambda: not is_alive(lost), "end of the master")
        else:
            send(lost, signal.SIGSTOP if how == "hangs" else signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait(300)
    ended(tfapp_home, "The Spark driver has ended.")
    assert not is_alive(lost)
    assert all((shared / f"asked-worker-{index}").exists() for index in (0, 1))


def test_the_command_is_the_driver(cluster, tfapp_home):
    """A package runs; the application is known afterwards."""
    words = ["create", "app", "--appdef", str(PLAIN_PACKAGE), "--resopt", "yarn.memory", "256"]
    words += ["--option", "site.global.spark.master", cluster.master, "--option"]
    words += ["site.global.spark.conf", "spark.cores.max=4, spark.executor.cores=2"]
    environment = {**cluster.environ(), "TFAPP_HOME": str(tfapp_home), "TFAPP_ENGINE": "spark"}

    def command(*more):
        words = [sys.executable, "-m", "tfapp", *more]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500)

    done = command(*words, "--detach")
    assert done.returncode == 2
    assert "--detach: on the engine spark the command is the driver" in done.stderr
    assert (
        f"ok       executors: {sys.executable} runs containers there; 6 slots\n"
        in command("doctor", "--python", sys.executable).stdout
    )
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert "trained\n" in done.stdout
    assert "app: Succeeded" in done.stderr
    assert "warning: Spark's connections are not protected" not in done.stderr
    timed = command("logs", "app", "worker/0", "--timestamps", "--since", "1h").stdout
    assert re.search(rf"^{STAMP} trained$", timed, re.MULTILINE)
    done = command("destroy", "app")
    assert done.returncode == 0
    assert done.stderr.startswith("app is destroyed")


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("local[2]", "Spark runs in local mode (local[2]): its tasks are threads of the driver"),
        ("spark://127.0.0.1:1", "no Spark master answers: 127.0.0.1:1: Connection refused"),
        ("", "there is no SparkSession in this process"),
    ],
)
def test_no_spark_to_be_had(cluster, tfapp_home, tmp_path, monkeypatch, master, said):
    program = tmp_path / "train.py"
    program.write_text("print('hello')\n")
    monkeypatch.syspath_prepend(str(cluster.library))
    monkeypatch.setattr("tfapp.engines.spark.session.active_context", lambda: None)
    words = ["run", program, "--engine", "spark", "--name", "app"]
    if master:
        words += ["--option", "site.global.spark.master", master]
    ended = call(words, {**os.environ, "TFAPP_HOME": str(tfapp_home)}, tmp_path)
    assert said in ended.err
    assert ended.code in (UsageError.exit_code, UnavailableError.exit_code)
    assert (
        call(["list", "--engine", "spark", "-q"], {"TFAPP_HOME": str(tfapp_home)}, tmp_path).out
        == ""
    )


@pytest.mark.weekly
def test_the_benchmark_of_its_start(spark, tmp_path, shared):
    """Its parts, once each; the end of a killed driver is a test of its own here."""
    bench = benchmarks.Bench(shared, spark, containers=2)
    assert bench.by_spark() > 0
    assert bench.by_tfapp() > 0
    assert [len(seconds) for seconds in bench.up.values()] == [1, 1]
    assert benchmarks.until_known(spark, "a program raises") > 0


class Beside(CommandLine):
    """Another process of the same user."""

    def living(self):
        """All below the keepers of containers."""
        return [one.pid for keeper in living() for one in tree(keeper)]


@pytest.mark.weekly
def test_commands_beside_a_program(spark, shared, waiting, pids, tfapp_home):
    """On an executor. Prometheus asks the driver's machine meanwhile."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    worker = {"worker": tfapp.Component("256 MiB")}
    options = {"site.global.exec": True, "site.global.metrics.port": port}
    with tfapp.submit(
        waiting, worker, spark=spark, name="app", options=options, show=False
    ) as application:
        pids(("worker-0-1",))
        eventually(lambda: application.status().instances[0].state == "RUNNING")
        beside = Beside(shared, tfapp_home, environ={"TFAPP_ENGINE": "spark"})
        check_commands(beside, "No such file or directory", VERY_LARGE)
        check_terminal(beside)
        check_what_ends(beside)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            told = {one.name: one for one in families(answer.read().decode())}
        assert told["tfapp_generation"].samples[0].labels == {"application": "app"}
        check_end_of_runner(beside)  # in generation 2 the program ends
        assert application.wait().state == "SUCCEEDED"
