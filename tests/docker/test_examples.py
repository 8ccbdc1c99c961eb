"""An example trains in Docker containers, and leaves none. The other one does so on the nodes of
a cluster, in tests/yarn/test_docker.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docker.flags import in_docker
from tfapp import shipped

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = shipped.app_packages_dir() / "tensorflow"
LIMIT = 600


def create(name: str, *words: str) -> subprocess.CompletedProcess:
    command = (sys.executable, "-m", "tfapp", "create", name, "--appdef", str(PACKAGE))
    return subprocess.run(
        (*command, *words, *in_docker()),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def test_it_trains_to_its_accuracy(engine, tmp_path):
    folder = REPOSITORY / "examples" / "digits-parameter-server"
    done = create(
        "digits",
        *("--template", str(folder / "appConfig.yaml")),
        *("--resources", str(folder / "resources.yaml")),
        *("--files", str(folder / "train.py")),
        *("--option", "site.global.user.checkpoint.prefix", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy = re.findall(r"test accuracy:? ([0-9.]+)", done.stdout)
    assert accuracy and float(accuracy[-1]) > 0.9, done.stdout
    assert engine.containers() == []
