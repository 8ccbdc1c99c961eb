"""The engine of Spark with the master `yarn`: containers are tasks of executors that YARN has
given out, and ends."""

import json
import subprocess
import sys

import pytest

from tests.clusters.spark.conftest import package_in
from tests.clusters.yarn.conftest import program

pytestmark = pytest.mark.usefixtures("nothing_left")

# Executors on the node that ends containers which use more memory than they asked for. Nodes are
# this machine, so Spark's jars need not travel.
SETTINGS = {
    "spark.yarn.jars": "local:{spark}/jars/*",
    "spark.yarn.executor.nodeLabelExpression": "special",
    "spark.yarn.am.memory": "256m",
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.yarn.am.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}

DRIVER = """
import json, os
from pyspark.sql import SparkSession
import tfapp

spark = SparkSession.builder.master("yarn").appName("tests").getOrCreate()

def train(ctx):
    import time
    if ctx.generation == 1 and ctx.index == 1:
        held = b"x" * (1000 << 20)
    if ctx.generation == 1:
        time.sleep(600)
    return ctx.generation

def workers(memory, instances=2):
    return {"worker": tfapp.Component(memory, instances=instances)}

refused = {}
for name, components in {
    "memory": workers("1 GiB"),
    "slots": workers("512 MiB", 3),
}.items():
    try:
        tfapp.submit(train, components, name=name, spark=spark, show=False)
    except tfapp.errors.InvalidPackageError as error:
        refused[name] = [p.message for p in error.problems if p.severity == "error"]
with tfapp.submit(train, workers("512 MiB"), name="app", spark=spark, show=False) as application:
    result = application.result()
    status = application.status()

def count(ctx):
    ids = [batch["id"].sum() for batch in ctx.feed.batches(100)]
    return [len(ids), int(sum(ids))]

more = {"engine": "yarn", "name": "fed", "feed": True, "show": False}
with tfapp.submit(count, workers("512 MiB"), **more) as application:
    fed = application.feed(spark.range(0, 2000, 1, 4))
    counted = dict(application.result().returned)
    shown = application.status().feed
print(json.dumps({
    "refused": refused,
    "fed": [fed.rows, fed.batches, counted, [shown.rows, dict(shown.instances), shown.over]],
    "returned": dict(result.returned),
    "restarts": status.restarts,
    "timeline": [moment.text for moment in status.timeline],
}))
spark.stop()
"""


# Of TensorFlowOnSpark: paths without a scheme are on the cluster's file system.
ON_HDFS = """
import json
from pyspark.sql import SparkSession
from tfapp.tensorflowonspark import TFCluster, dfutil

def opens(args, ctx):
    import tensorflow as tf
    place = ctx.absolute_path(args)
    checkpoint = tf.train.Checkpoint(step=tf.Variable(7))
    saved = checkpoint.save(place + "/ckpt")
    restored = tf.train.Checkpoint(step=tf.Variable(0))
    restored.restore(tf.train.latest_checkpoint(place)).assert_consumed()
    return [place, saved, int(restored.step), ctx.defaultFS]

spark = SparkSession.builder.master("yarn").appName("tests").getOrCreate()
sc = spark.sparkContext
cluster = TFCluster.run(sc, opens, "tfos/saved", 1, 0, name="app", show=False)
cluster.shutdown()
(told,) = cluster.application.result().returned.values()
records = f"{cluster.defaultFS}/user/{sc.sparkUser()}/tfos/records"
dfutil.saveAsTFRecords(spark.range(100, 103, 1, 2), records)
rows = [row.id for row in dfutil.loadTFRecords(sc, records).collect()]
print(json.dumps([*told, sorted(rows)]))
spark.stop()
"""


@pytest.fixture
def drive(cluster, user, tmp_path):
    """Runs a driver with SETTINGS and others. What it prints is JSON."""
    spark, conf = package_in(cluster.cache), tmp_path / "conf"
    conf.mkdir()
    environ = {
        **cluster.environ(),
        "TFAPP_HOME": str(user.home),
        "SPARK_HOME": str(spark),
        "SPARK_CONF_DIR": str(conf),
        "PYTHONPATH": str(spark.parent),
        "PYSPARK_PYTHON": sys.executable,
    }

    def run(driver: str, **changes: str):
        settings = {**SETTINGS, **changes}
        lines = [f"{key} {value.format(spark=spark)}\n" for key, value in settings.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        words = [sys.executable, "-c", driver]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=800)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.weekly
@pytest.mark.trains
@pytest.mark.timeout(900)
def test_programs_of_tensorflowonspark_on_hdfs(drive, cluster):
    """Of a path without a scheme, and records that Spark's own tasks write and read."""
    roomy = {"spark.executor.memoryOverhead": "2560m", "spark.executor.instances": "1"}
    place, saved, step, default, ids = drive(ON_HDFS, **roomy)
    assert default == cluster.storage
    assert place == f"{cluster.storage}/user/{program.user()}/tfos/saved"
    assert (saved, step) == (f"{place}/ckpt-1", 7)
    assert ids == [100, 101, 102]


@pytest.mark.weekly
@pytest.mark.timeout(900)
def test_executors_of_yarn(drive):
    """An executor is ended for its memory, which is told, and its container is replaced. What does
    not fit beside an executor's heap, or in its slots, is refused before anything is made. At last
    the executors feed programs of the engine of YARN."""
    said = drive(DRIVER)
    assert said["refused"] == {
        "memory": ["1024 MiB, and an executor has 512 MiB beside its heap"],
        "slots": ["3 containers on executors, and Spark runs at most 2 tasks at a time"],
    }
    assert said["returned"] == {"worker/0": 2, "worker/1": 2}
    rows, batches, counted, shown = said["fed"]
    assert (rows, batches, [count for count, _ in counted.values()]) == (2000, 10, [10, 10])
    assert sum(total for _, total in counted.values()) == sum(range(2000))
    assert shown == [2000, {"worker/0": 1000, "worker/1": 1000}, True]
    assert said["restarts"] == 1
    timeline = "\n".join(said["timeline"])
    assert "worker/1 on 127.0.0.1 was killed for its memory (Spark has ended its task" in timeline
    assert "Container killed by YARN for exceeding physical memory limits" in timeline
