"""An unmodified program on executors that keeps its checkpoints on S3."""

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests import python_environments
from tests.clusters.spark.conftest import wait_for
from tests.clusters.spark.test_engine import above, living
from tests.end_to_end.command_line import CommandLine
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
        words = (*saving.words(tfapp), "-w", 1, "--checkpoints", "s3://bucket/saved", *flags)
        with tfapp.start(*words) as driver:
            try:
                wait_for(lambda: "saving" in tfapp.names(), "application", 60)
                saved = saving.saves()
                (container,) = living()
                os.kill(above(container, "CoarseGrainedExecutor"), signal.SIGKILL)
                saving.check_it_goes_on("s3://bucket/saved/saving", saved)
                out, problems = driver.communicate(timeout=60)
            finally:
                driver.kill()
        assert driver.returncode == 0, problems
        assert "secret-of-tests" not in out + problems
        tfapp.ok("destroy", "saving")
        check_doctor(tfapp, "s3://bucket/checked", *flags)


DRIVER = """
import functools, json, sys
from pyspark.sql import SparkSession
import tfapp

def opens(ctx, folder):
    import sys
    import helper
    import tensorflow as tf
    with tf.io.gfile.GFile(f"{folder}/one", "w") as file:
        file.write(helper.WORD)
    return [tf.io.gfile.GFile(f"{folder}/one").read(), sys.prefix]

one = {"worker": tfapp.Component("512 MiB")}
more = {"name": "app", "show": False, "env": json.loads(sys.argv[1])}
spark = SparkSession.builder.getOrCreate()
opened = functools.partial(opens, folder="s3://bucket/opened")
print(json.dumps(tfapp.run(opened, one, spark=spark, **more).returned["worker/0"]))
spark.stop()
"""


def test_with_py_files_and_archives_of_spark(cluster, drivers, tfapp_home, tmp_path):
    """The Python of executors is one that Spark has unpacked; a module is beside it."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "environment.tar.gz")
    (tmp_path / "helper.py").write_text("WORD = 'shipped'\n")
    (tmp_path / "driver.py").write_text(DRIVER)
    of_test = dataclasses.replace(drivers, environ={**drivers.environ, "TFAPP_HOME": tfapp_home})
    with s3_server.running(tmp_path / "s3", ("bucket",), cluster.address("driver")) as s3:
        printed = of_test.run(
            *("spark-submit", "--py-files", tmp_path / "helper.py"),
            *("--archives", f"{archive}#environment"),
            *("--conf", "spark.pyspark.python=./environment/bin/python"),
            *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
            *("--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=2"),
            *(tmp_path / "driver.py", json.dumps(s3)),
        )
    written, prefix = json.loads(printed.splitlines()[-1])
    assert (written, Path(prefix).name) == ("shipped", "environment")
