"""The cluster that users start for themselves, and its disturbances."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfapp
from tests.clusters.spark import fed_programs
from tests.clusters.spark.conftest import PROGRAM, SETTINGS, Drivers, program, wait_for
from tests.clusters.spark.test_feed import Background

LIMIT = 300.0
BOTH = {"worker1", "worker2"}


def running(word: str) -> list[int]:
    """The processes that have it in their command line or environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (path / "cmdline").read_bytes() + (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def links() -> set[str]:
    """This machine's links to clusters."""
    return {name for name in os.listdir("/sys/class/net") if name.startswith("tfspark")}


def where_it_runs(spark) -> list[str]:
    """The addresses of six tasks that run at the same time, by which the driver sees them."""
    driver = spark.sparkContext.getConf().get("spark.driver.host")

    def address(_):
        import socket

        from pyspark import BarrierTaskContext

        BarrierTaskContext.get().barrier()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((driver, 9))
            return [probe.getsockname()[0]]

    tasks = spark.sparkContext.parallelize(range(6), 6).barrier().mapPartitions(address)
    return sorted(tasks.collect())


def executors(spark) -> int:
    """How many the driver knows of."""
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # and itself


def test_a_job_runs_on_both_workers(cluster, spark):
    expected = [cluster.address("worker1")] * 3 + [cluster.address("worker2")] * 3
    assert where_it_runs(spark) == expected
    assert cluster.address("driver") not in expected


def test_authentication_and_encryption_are_on(cluster, spark, drivers):
    conf = spark.sparkContext.getConf()
    keys = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
    assert [conf.get(key) for key in keys] == ["true"] * 3
    assert (cluster.folder / "conf").stat().st_mode & 0o777 == 0o700
    stranger = (
        "from pyspark.sql import SparkSession\n"
        "SparkSession.builder.config('spark.authenticate.secret', 'guessed').getOrCreate()\n"
    )
    with drivers.running(sys.executable, "-c", stranger) as process:
        refused = f"Failed to connect to master {cluster.address('master')}"
        assert any(refused in line for line in process.stdout)


def test_each_worker_offers_gpus(cluster):
    found = {w["host"]: w["resources"]["gpu"]["addresses"] for w in cluster.web()["workers"]}
    assert found == {cluster.address(name): ["0", "1"] for name in BOTH}


@pytest.mark.weekly
def test_a_driver_can_be_a_process_of_its_own(cluster, drivers, spark):
    """It has executors beside those of the session in this process."""
    printed = drivers.run("spark-submit", PROGRAM.with_name("hosts.py"), "6")
    expected = [f"{cluster.address('worker1')} 3", f"{cluster.address('worker2')} 3"]
    assert printed.splitlines() == expected


@pytest.mark.weekly
def test_a_killed_worker_is_noticed_and_comes_back(cluster, spark):
    """An application that has a container on each goes on, on the other one."""
    (before,) = cluster.executors(2)

    def train(ctx):
        import time

        time.sleep(600 if ctx.generation == 1 else 0)

    large = {"worker": tfapp.Component("256 MiB", instances=2, vcores=2)}  # one on an executor
    app = tfapp.submit(train, large, spark=spark, name="app", show=False)
    app.wait_until_running()
    cluster.kill_worker(2)
    wait_for(lambda: set(cluster.registered()) == {"worker1"}, "end of worker 2 at the master")
    wait_for(lambda: not before.alive(), "end of its executor")
    assert cluster.require() == ["worker2"]
    # Worker 1 has room for the executor that takes its place.
    wait_for(lambda: executors(spark) == 2, "a new executor")
    assert app.wait().state == "SUCCEEDED"
    status = app.status()
    assert (status.generation, status.losses, status.restarts) == (2, 1, 0), status
    assert set(where_it_runs(spark)) == {cluster.address("worker1")}
    cluster.start_worker(2)
    assert cluster.require() == []
    assert set(cluster.registered()) == BOTH


@pytest.mark.weekly
def test_workers_that_say_nothing_are_given_up(cluster, spark, tmp_path):
    """One is paused, the other is cut off; both come back. Programs elsewhere get every row once
    that their executors feed meanwhile."""
    tmp_path.chmod(0o777)

    def made(part, _, folder=str(tmp_path)):
        import pathlib
        import time

        for number in range(2000 * part, 2000 * part + 2000):
            if number % 2000 == 1000:
                pathlib.Path(folder, f"half-{part}").touch()
                while not pathlib.Path(folder, "back").exists():
                    time.sleep(0.1)
            yield {"id": number, "x": [0.0, 0.0, 0.0, float(number)]}

    data = spark.sparkContext.parallelize(range(6), 6).mapPartitionsWithIndex(made)
    collect = functools.partial(fed_programs.collect, folder=str(tmp_path))
    options = {"site.global.advertise.host": cluster.address("driver")}
    more = {"engine": "local", "name": "app", "feed": True, "show": False, "options": options}
    workers = {"worker": tfapp.Component("256 MiB", instances=2)}
    with tfapp.submit(collect, workers, **more) as app:
        feed = functools.partial(app.feed, data, rest="share")
        with Background(feed) as feeding:
            wait_for(
                lambda: len(list(tmp_path.glob("half-*"))) == 6, "the middle of every partition"
            )
            cluster.pause_worker(1)
            cluster.cut_worker(2)
            wait_for(lambda: cluster.registered() == {}, "end of the workers at the master")
            assert cluster.require() == []
            cluster.resume_worker(1)
            cluster.join_worker(2)
            wait_for(lambda: set(cluster.registered()) == BOTH, "both workers")
            wait_for(lambda: executors(spark) == 2, "both executors")
            (tmp_path / "back").touch()
        app.result()
    ids = np.concatenate([np.load(tmp_path / f"{index}-1.npy") for index in range(2)])
    assert sorted(ids.tolist()) == list(range(12_000))
    assert (feeding.result.rows, feeding.result.dropped, feeding.result.lost) == (12_000, 0, 0)
    assert len(where_it_runs(spark)) == 6


# A task that starts a process which has nothing of the cluster in its environment.
HIDES = """
import subprocess
from pyspark.sql import SparkSession
def hide(_):
    command = ["env", "-i", "setsid", "sleep", "86399"]
    return [subprocess.Popen(command, stdin=subprocess.DEVNULL).pid]
spark = SparkSession.builder.getOrCreate()
print("started", *spark.sparkContext.parallelize([0], 1).mapPartitions(hide).collect(), flush=True)
spark.sparkContext.parallelize([0], 1).foreach(lambda _: __import__("time").sleep(86399))
"""


@pytest.mark.weekly
def test_stop_leaves_nothing(cluster, drivers, tmp_path):
    """Of a second cluster, beside the first, whose task has started a process of its own."""
    before = links()
    second = program.Cluster(tmp_path / "second", cluster.cache)
    second.start(program.Size(workers=1), settings={**SETTINGS, "spark.cores.max": "3"})
    assert len(links() - before) == 1
    environ = {**drivers.environ, **second.variables()}
    with Drivers(environ).running(sys.executable, "-c", HIDES) as driver:
        hidden = next(int(line.split()[1]) for line in driver.stdout if line.startswith("started"))
        hidden = program.Process.of(hidden)
        assert hidden in second.processes(1)
        second.stop()
        assert not hidden.alive()
        assert driver.poll() is None  # it is its user's
    assert running(f"{program.MARK}={second.folder}/") == []
    wait_for(lambda: links() == before, "end of the link to its network")
    assert not second.folder.exists()
    assert set(cluster.registered()) == BOTH


@pytest.mark.weekly
def test_a_start_that_was_killed_leaves_nothing_after_stop(cluster, tmp_path):
    run = [sys.executable, str(PROGRAM)]
    where = ["--dir", str(tmp_path / "c"), "--cache", str(cluster.cache)]
    before = links()
    with subprocess.Popen([*run, "start", *where], stdout=subprocess.DEVNULL) as start:
        state = tmp_path / "c" / program.STATE
        wait_for(
            lambda: state.exists() and json.loads(state.read_text())["processes"], "the master"
        )
        start.kill()
    assert running(f"{program.MARK}={tmp_path / 'c'}/") != []
    again = subprocess.run([*run, "start", *where], capture_output=True, text=True, timeout=LIMIT)
    assert again.returncode == 1
    assert f"the cluster in {tmp_path / 'c'} runs already; stop it first" in again.stderr
    subprocess.run([*run, "stop", *where], check=True, timeout=LIMIT)
    assert running(f"{program.MARK}={tmp_path / 'c'}/") == []
    wait_for(lambda: links() == before, "end of the link to its network")


@pytest.mark.weekly
def test_without_namespaces(cluster, tmp_path):
    """As for who is not root."""
    run = [sys.executable, str(PROGRAM)]
    where = ["--dir", str(tmp_path / "c"), "--cache", str(cluster.cache)]
    small = ["--network", "loopback", "--workers", "1", "--gpus", "0"]
    started = subprocess.run(
        [*run, "start", *small, *where], capture_output=True, text=True, timeout=LIMIT
    )
    assert started.returncode == 0, started.stderr
    assert "export SPARK_MASTER=spark://127.0.0.2:" in started.stdout
    (worker,) = program.Cluster(tmp_path / "c", cluster.cache).web()["workers"]
    assert (worker["host"], worker["resources"]) == ("127.0.0.11", {})
    cut = subprocess.run(
        [*run, "worker", "1", "cut", *where], capture_output=True, text=True, timeout=LIMIT
    )
    assert (cut.returncode, cut.stderr) == (
        1,
        "cluster.py: workers at 127.0.0.x cannot be cut off; see --network\n",
    )
    subprocess.run([*run, "stop", *where], check=True, timeout=LIMIT)
    assert running(f"{program.MARK}={tmp_path / 'c'}/") == []


def test_a_folder_that_is_not_a_cluster_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    library = program.folder_in(tmp_path / "cache")
    library.mkdir(parents=True)
    made = program.Cluster(tmp_path, tmp_path / "cache", {"JAVA_HOME": str(tmp_path)})
    with pytest.raises(program.ClusterError, match="not a cluster's"):
        made.start()
    with pytest.raises(program.ClusterError, match="there is no cluster in"):
        made.stop()
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_its_variables_are_there_while_a_worker_is_not(tmp_path):
    me = program.Process.of(os.getpid())
    runs, gone = ({"pid": me.pid, "started": started} for started in (me.started, 0))

    def env(**ended: object) -> subprocess.CompletedProcess[str]:
        state = {
            "spark": "/lib/pyspark",
            "fetched": True,
            "prefix": "198.18.1",
            "ports": {"master": 7077},
            "size": {"workers": 2},
            "namespaces": {},
            "processes": {**dict.fromkeys(("master", "worker1", "worker2"), runs), **ended},
        }
        (tmp_path / "cluster.json").write_text(json.dumps(state))
        return subprocess.run(
            [sys.executable, str(PROGRAM), "env", "--dir", str(tmp_path)],
            env={**os.environ, "JAVA_HOME": "/java", "PYTHONPATH": "/mine"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    done = env(worker2=gone)
    assert (done.returncode, done.stderr) == (
        0,
        "cluster.py: worker2 has ended; `worker 2 start`\n",
    )
    assert done.stdout == (
        "export JAVA_HOME=/java\n"
        "export SPARK_HOME=/lib/pyspark\n"
        f"export SPARK_CONF_DIR={tmp_path}/conf\n"
        "export SPARK_MASTER=spark://198.18.1.2:7077\n"
        f"export PYSPARK_PYTHON={sys.executable}\n"
        "export PYTHONPATH=/lib:/mine\n"
        'export PATH=/lib/pyspark/bin:"$PATH"\n'
    )
    done = env(worker2=gone, master=gone)
    assert (done.returncode, done.stdout) == (1, "")
    assert "master, worker2 has ended" in done.stderr


def test_without_java_it_says_so(tmp_path):
    made = program.Cluster(tmp_path / "c", tmp_path, {"PATH": str(tmp_path)})
    with pytest.raises(program.ClusterError, match="there is no Java"):
        made.start()
    assert not (tmp_path / "c").exists()
