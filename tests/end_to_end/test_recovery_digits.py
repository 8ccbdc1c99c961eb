"""Real TensorFlow loses a worker, and the digits are learned all the same."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time

import pytest

from tests.end_to_end.command_line import CommandLine
from tfapp.shipped import app_packages_dir

LIMIT = 300  # seconds for anything that TensorFlow does here; it takes half a minute
EXAMPLES = app_packages_dir().parent / "examples"
EPOCH = re.compile(r"^Epoch (\d+)/", re.MULTILINE)


class Digits:
    def __init__(self, tfapp: CommandLine, example: str, package=None, *flags: object):
        self.tfapp = tfapp
        folder = EXAMPLES / example
        arguments = "--checkpoint-dir ${CHECKPOINT_DIR} --epochs 30"
        tfapp.ok(
            *("create", "digits", "--appdef", package or app_packages_dir() / "tensorflow"),
            *("--template", folder / "appConfig.yaml", "--resources", folder / "resources.yaml"),
            *("--files", folder / "train.py", "--detach", "--wait", 90, *flags),
            *("--option", "site.global.user.scripts.args", arguments),
        )

    def epochs(self, instance: str) -> list[int]:
        """Each epoch that an instance has begun, over all its programs."""
        return [int(number) for number in EPOCH.findall(self.tfapp.ok("logs", "digits", instance))]

    def kill(self, instance: str, watched: str) -> None:
        """Kills a program once the training is under way."""
        end = time.monotonic() + LIMIT
        while max(self.epochs(watched), default=0) < 4:
            assert time.monotonic() < end, self.tfapp.ok("logs", "digits", watched)
            time.sleep(0.1)
        os.kill(self.tfapp.process("digits", instance, "train.py"), signal.SIGKILL)

    def succeeds(self, instance: str) -> dict:
        """The status after the end, with the accuracy that `instance` has told."""
        self.tfapp("wait", "digits", "--timeout", LIMIT)
        status = self.tfapp.status("digits")["status"]
        log = self.tfapp.ok("logs", "digits", instance)
        assert status["state"] == "SUCCEEDED", status["verdict"]["summary"] + log
        accuracy = re.findall(r"^test accuracy (0\.\d+)$", log, re.MULTILINE)
        assert float(accuracy[-1]) > 0.9
        assert self.tfapp.living() == []
        return status


@pytest.fixture
def patient(tfapp, monkeypatch):
    monkeypatch.setattr("tests.end_to_end.command_line.LIMIT", LIMIT)
    return tfapp


def test_all_workers_go_on_from_the_checkpoint(patient):
    digits = Digits(patient, "digits-multiworker")
    digits.kill("worker/1", watched="worker/0")
    status = digits.succeeds("worker/0")
    assert (status["generation"], status["restarts"]) == (2, 1)
    log = patient.ok("logs", "digits", "worker/0")
    _, _, again = log.partition("worker/0 is ready for generation 2")
    epochs = [int(number) for number in EPOCH.findall(again)]
    assert epochs == list(range(epochs[0], 31))
    assert epochs[0] >= 3, "it goes on from the checkpoint"


def test_a_worker_comes_back_to_its_parameter_server(patient, tmp_path):
    """The chief gives its work to it again, and never stops."""
    package = tmp_path / "package"
    shutil.copytree(app_packages_dir() / "tensorflow", package)
    with (package / "metainfo.yaml").open("a") as metainfo:
        metainfo.write("""
  failurePolicy:
    rules:
      - {components: [worker], action: RestartInstance}
""")
    digits = Digits(patient, "digits-parameter-server", package, "--component", "evaluator", 0)
    digits.kill("worker/1", watched="chief/0")
    status = digits.succeeds("chief/0")
    assert (status["generation"], status["restarts"]) == (1, 1)
    assert digits.epochs("chief/0") == list(range(1, 31))
