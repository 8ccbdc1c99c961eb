"""A grid on a real cluster. Its command is the driver of all its runs, and is called again."""

import json
import signal
import subprocess
import sys

import pytest

from tests.clusters.spark.conftest import wait_for

LIMIT = 300.0
# The point `killed` fails once, in its first run; `bad` until the program is mended.
PROGRAM = """
import json, os, pathlib, signal, sys
rate, mode = sys.argv[-1].removeprefix("--rate="), os.environ["MODE"]
folder = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "begun").open("a") as begun:
    begun.write(f"{mode} ")
if mode == "waits":
    signal.pause()
if (rate, mode) == ("killed", "strict") and os.environ["TFAPP_GENERATION"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
if (rate, mode) == ("bad", "strict"):
    sys.exit("no such rate")
path = os.environ["TFAPP_METRICS_FILE"]
pathlib.Path(path + ".new").write_text(json.dumps({"step": 1, "metrics": {"loss": 0.5}}))
os.replace(path + ".new", path)
"""


@pytest.fixture
def grid(cluster, tfapp_home, shared, tmp_path):
    """Starts the command with a program of a mode."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "points.yaml").write_text("{rate: [0.1, killed, bad], yarn.memory: 256}")
    environ = {**cluster.environ(), "TFAPP_HOME": str(tfapp_home), "TFAPP_ENGINE": "spark"}
    words = ["grid", "train.py", "--points", "points.yaml", "--name", "g", "--retries", "1"]
    words += ["--checkpoints", str(shared), "--format", "json"]
    words += ["--option", "site.global.spark.master", cluster.master]
    words += ["--option", "site.global.spark.conf", "spark.cores.max=4, spark.executor.cores=2"]

    def start(mode):
        command = [sys.executable, "-m", "tfapp", *words, "-e", f"MODE={mode}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=tmp_path, env=environ, text=True, **pipes)

    return start


def ends(process):
    """Its exit code, and the state and the metrics of each point."""
    out, err = process.communicate(timeout=LIMIT)
    points = json.loads(out)["points"] if out else pytest.fail(err)
    return process.returncode, [(point["state"], point["metrics"].get(LOSS)) for point in points]


LOSS, DONE = "worker/0 loss", ("SUCCEEDED", 0.5)


@pytest.mark.weekly
def test_a_grid_goes_on_after_ctrl_c_and_a_failure(grid, shared):
    stopped = grid("waits")
    wait_for(lambda: len([*shared.glob("*/begun")]) == 2, "two programs")
    stopped.send_signal(signal.SIGINT)
    assert ends(stopped) == (130, [("KILLED", None), ("KILLED", None), (None, None)])
    assert ends(grid("strict")) == (65, [DONE, DONE, ("FAILED", None)])
    assert ends(grid("mended")) == (0, [DONE, DONE, DONE])
    begun = sorted(path.read_text().strip() for path in shared.glob("*/begun"))
    assert begun == ["strict mended", "waits strict", "waits strict strict"]
