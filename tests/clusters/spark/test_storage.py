"""An unmodified program on executors that keeps its checkpoints on S3."""

import dataclasses
import json
import os
import re
import signal
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import python_environments
from tests.clusters.spark.conftest import ROOT, wait_for
from tests.clusters.spark.test_engine import above, living
from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.looks import check_history
from tests.storage import s3_server
from tests.storage.programs import check_doctor
from tests.storage.saving import Saving

pytestmark = pytest.mark.trains


class OfDriver(Saving):
    """The command that starts it is the driver of Spark, and goes on until its end."""

    def __init__(self, tfapp):
        self.tfapp, self.name = tfapp, "saving"


def test_a_lost_executor_goes_on_from_s3(cluster, tfapp_home, tmp_path):
    (tmp_path / "work").mkdir()
    with s3_server.running(tmp_path / "s3", ("bucket",), cluster.address("driver")) as s3:
        secrets = tmp_path / "keys.env"
        secrets.write_text("".join(f"{name}={value}\n" for name, value in s3.items()))
        environ = {**cluster.environ(), **s3, "TFAPP_ENGINE": "spark"}
        tfapp = CommandLine(tmp_path / "work", tfapp_home, environ=environ)
        saving = OfDriver(tfapp)
        flags = (
            *("--secret-env-file", secrets),
            *("--option", "site.global.spark.master", cluster.master),
            *("--option", "site.global.spark.conf", "spark.cores.max=2, spark.executor.cores=2"),
        )
        kept = ("-O", "site.global.history.dir", "s3://bucket/history")
        words = (*saving.words(tfapp), "-w", 1, "--checkpoints", "s3://bucket/saved", *kept, *flags)
        with tfapp.start(*words) as driver:
            try:
                wait_for(lambda: "saving" in tfapp.names(), "application", 60)
                saved = saving.saves()
                saving.check_looks()
                (container,) = living()
                os.kill(above(container, "CoarseGrainedExecutor"), signal.SIGKILL)
                saving.check_it_goes_on("s3://bucket/saved/saving", saved)
                out, problems = driver.communicate(timeout=60)
            finally:
                driver.kill()
        assert driver.returncode == 0, problems
        assert "secret-of-tests" not in out + problems
        tfapp.ok("destroy", "saving")
        anew = CommandLine(tmp_path / "work", tmp_path / "anew", environ=s3)
        last = "restores s3://bucket/saved/saving/ckpt-"
        check_history(anew, "saving", "s3://bucket/history", last)
        check_doctor(tfapp, "s3://bucket/checked", *flags)


DRIVER = """
import json, sys
from pyspark.sql import SparkSession
from tfapp.tensorflowonspark import TFCluster, dfutil

def opens(args, ctx):
    import sys
    import helper
    import tensorflow as tf
    place = ctx.absolute_path("opened/one")
    with tf.io.gfile.GFile(place, "w") as file:
        file.write(helper.WORD)
    return [tf.io.gfile.GFile(place).read(), place, sys.prefix]

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
sc._jsc.hadoopConfiguration().set("fs.defaultFS", "s3a://bucket")
cluster = TFCluster.run(sc, opens, None, 1, 0, name="app", show=False, env=json.loads(sys.argv[1]))
cluster.shutdown()
(told,) = cluster.application.result().returned.values()
dfutil.saveAsTFRecords(spark.range(100, 103, 1, 2), "s3a://bucket/records")
rows = [row.id for row in dfutil.loadTFRecords(sc, "s3a://bucket/records").collect()]
print(json.dumps([*told, sorted(rows)]))
spark.stop()
"""


@pytest.mark.weekly
def test_programs_of_tensorflowonspark_with_py_files_and_archives(
    cluster, drivers, tfapp_home, tmp_path
):
    """The Python of executors is one that Spark has unpacked; a module is beside it. Paths without
    a scheme are on the file system that Hadoop's settings name, and records are written and read
    by Spark's own tasks."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "environment.tar.gz")
    (tmp_path / "helper.py").write_text("WORD = 'shipped'\n")
    (tmp_path / "driver.py").write_text(DRIVER)
    of_test = dataclasses.replace(drivers, environ={**drivers.environ, "TFAPP_HOME": tfapp_home})
    with s3_server.running(tmp_path / "s3", ("bucket",), cluster.address("driver")) as s3:
        path = os.pathsep.join((str(ROOT), sysconfig.get_path("purelib")))  # tfapp[storage]
        tasks = {**s3, "PYTHONPATH": path}
        of_tasks = [("--conf", f"spark.executorEnv.{name}={tasks[name]}") for name in tasks]
        printed = of_test.run(
            *("spark-submit", "--py-files", tmp_path / "helper.py"),
            *("--archives", f"{archive}#environment"),
            *("--conf", "spark.pyspark.python=./environment/bin/python"),
            *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
            *("--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=2"),
            *(word for words in of_tasks for word in words),
            *(tmp_path / "driver.py", json.dumps(s3)),
        )
    written, place, prefix, ids = json.loads(printed.splitlines()[-1])
    assert (written, Path(prefix).name) == ("shipped", "environment")
    assert re.fullmatch("s3a://bucket/user/[^/]+/opened/one", place)
    assert ids == [100, 101, 102]
