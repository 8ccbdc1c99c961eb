"""An unmodified program in pods that keeps its checkpoints on S3."""

import subprocess
import sys

import pytest
from kubernetes_cluster import relay, settings

from tests.clusters.kubernetes.command import FRUGAL
from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.looks import check_history
from tests.storage import s3_server
from tests.storage.programs import check_doctor
from tests.storage.saving import Saving

pytestmark = pytest.mark.trains


@pytest.fixture
def s3(cluster, tmp_path):
    """Its variables for pods, and its address for this machine."""
    host = settings.CONTROL_PLANE
    with s3_server.running(tmp_path / "s3", ("bucket",), host, cluster.inside()) as environ:
        there = environ["S3_ENDPOINT"].rpartition(":")[2]
        pid = cluster.inside()[2]
        command = [sys.executable, "-IS", relay.__file__, pid, "0", host, there]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as passing:
            try:
                yield environ, f"127.0.0.1:{passing.stdout.readline().strip()}"
            finally:
                passing.kill()


def test_a_lost_pod_goes_on_from_s3(tfapp, s3, tmp_path, monkeypatch):
    """The image has TensorFlow, and nothing that opens URLs. Its keys are a Secret. The
    master's pod keeps the run in a history there, which is seen when nothing else of it is left."""
    environ, address = s3
    secrets = tmp_path / "keys.env"
    secrets.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    for name, value in {**environ, "S3_ENDPOINT": address}.items():
        monkeypatch.setenv(name, value)
    keys = ("--checkpoints", "s3://bucket/saved", "--secret-env-file", secrets)
    keys += ("-O", "site.global.history.dir", "s3://bucket/history")
    saving = Saving(tfapp, "-w", 1, *keys, *FRUGAL)
    saved = saving.saves()
    saving.check_looks()
    tfapp.delete("pods", tfapp.pods("saving")["worker-0"]["metadata"]["name"])
    saving.check_it_goes_on("s3://bucket/saved/saving", saved)
    check_doctor(tfapp, "s3://bucket/checked", *keys[2:4], *FRUGAL)
    tfapp.ok("destroy", "saving")
    assert tfapp.objects() == []
    anew = CommandLine(tfapp.work, tmp_path / "anew")
    check_history(anew, "saving", "s3://bucket/history", "restores s3://bucket/saved/saving/ckpt-")
