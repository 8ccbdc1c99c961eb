"""The program that `tfapp init` brings."""

import os
import re
import subprocess
import sys

import pytest

from tfapp import shipped

PROGRAM = shipped.app_packages_dir() / "tensorflow" / "files" / "train.py"
EPOCH = re.compile(r"Epoch (\d+)/20")


@pytest.mark.trains
def test_it_goes_on_where_it_was_killed_and_shows_its_loss(tmp_path):
    environ = {**os.environ, "TFAPP_CHECKPOINT_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    environ["TF_USE_LEGACY_KERAS"] = "1"
    process = {
        "args": [sys.executable, str(PROGRAM)],
        "env": environ,
        "text": True,
        "stdout": subprocess.PIPE,
    }
    with subprocess.Popen(**process) as first:
        for line in first.stdout:
            if line.startswith("Epoch 4/"):
                first.kill()
    done = subprocess.run(**process, timeout=300, check=True)
    epochs = [int(number) for number in EPOCH.findall(done.stdout)]
    assert epochs == list(range(epochs[0], 21))
    assert epochs[0] >= 4, "three were saved"
    assert "(drawn from y = 3.00 x -1.00)" in done.stdout
    assert list((tmp_path / "logs" / "train").glob("events.*"))
