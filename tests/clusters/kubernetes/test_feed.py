"""Programs in pods that a Spark session feeds."""

import json
import os
import subprocess
import sys

import pytest

from tests.clusters.kubernetes.pod_images import TENSORFLOW
from tests.clusters.spark.conftest import package_in

# An executor that is a process of its own, on the machine of the driver.
SETTINGS = """
spark.master local-cluster[1,2,512]
spark.executor.memory 512m
spark.driver.memory 512m
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.log.level ERROR
spark.driver.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1
spark.executor.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1
"""

DRIVER = """
import json, sys
from pyspark.sql import SparkSession
import tfapp

namespace, image = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

def count(ctx):
    ids = [batch["id"].sum() for batch in ctx.feed.batches(100)]
    with open("/proc/self/maps") as maps:
        shares = "tfapp-feed" in maps.read()  # memory, with the tasks: they are outside the pod
    return [len(ids), int(sum(ids)), shares]

more = {"engine": "kubernetes", "namespace": namespace, "image": image, "feed": True}
options = {"site.global.kubernetes.cpu.request": "10m"}
workers = {"worker": tfapp.Component("256 MiB", instances=2)}
with tfapp.submit(count, workers, name="fed", show=False, options=options, **more) as app:
    fed = app.feed(spark.range(0, 2000, 1, 4))
    counted = dict(app.result().returned)
    shown = app.status().feed
print(json.dumps([fed.rows, fed.batches, counted, [shown.rows, dict(shown.instances), shown.over]]))
spark.stop()
"""


@pytest.mark.weekly
def test_pods_are_fed_from_spark(cluster, cache, namespace, tmp_path):
    """The driver and its executor are where pods have addresses."""
    spark = package_in(cache)
    config = json.loads(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://10.77.0.1"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "spark-defaults.conf").write_text(SETTINGS)
    environ = {
        **os.environ,
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "SPARK_HOME": str(spark),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "10.77.0.1",
        "PYTHONPATH": str(spark.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    words = cluster.inside(sys.executable, "-c", DRIVER, namespace.name, TENSORFLOW)
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows, batches, counted, shown = json.loads(done.stdout)
    counts, totals, shares = zip(*counted.values())
    assert (rows, batches, counts, shares) == (2000, 10, (10, 10), (False, False))
    assert sum(totals) == sum(range(2000))
    assert shown == [2000, {"worker/0": 1000, "worker/1": 1000}, True]
