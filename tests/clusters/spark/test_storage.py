"""An unmodified program on executors that keeps its checkpoints on S3."""

import os
import signal

import pytest

from tests.clusters.spark.conftest import wait_for
from tests.clusters.spark.test_engine import above, living
from tests.end_to_end.command_line import CommandLine
from tests.storage import s3_server
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
        words = (
            *saving.words(tfapp),
            *("-w", 1, "--checkpoints", "s3://bucket/saved", "--secret-env-file", secrets),
            *("--option", "site.global.spark.master", cluster.master),
            *("--option", "site.global.spark.conf", "spark.cores.max=2, spark.executor.cores=2"),
        )
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
