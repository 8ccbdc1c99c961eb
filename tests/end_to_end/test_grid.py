"""A grid of runs on this machine: one fails, its command is killed and called again."""

import json
import os
import re
import signal

import pytest

from tests.cli.test_json_output import document
from tests.end_to_end.command_line import LIMIT
from tests.readme import README
from tests.waiting import wait

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, pathlib, sys, time
rate, size = sys.argv[-2:]
folder = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "runs").open("a") as runs:
    runs.write(os.environ["MODE"])
if rate == "--rate=bad" and os.environ["MODE"] == "strict":
    sys.exit("no such rate")
while not pathlib.Path("{go}").exists():
    time.sleep(0.05)
path = os.environ["TFAPP_METRICS_FILE"]
pathlib.Path(path + ".new").write_text(json.dumps({{"step": 1, "metrics": {{"loss": 0.5}}}}))
os.replace(path + ".new", path)
"""
POINTS = "{rate: [bad, 0.1, 0.2], size: 7}"


def test_a_grid_whose_command_is_killed_goes_on(tfapp, tmp_path):
    program = tfapp.program(PROGRAM.format(go=tmp_path / "go"))
    (tfapp.work / "points.yaml").write_text(POINTS)
    own = ("grid", program, "--points", "points.yaml", "--name", "g", "--at-once", 2)
    own = (*own, "--retries", 0, "-t", "mine")

    def states() -> list[str]:
        listed = json.loads(tfapp.asks("list", "--format", "json"))
        assert all(row["tags"] == ["g", "mine"] for row in listed["applications"])
        return sorted(row["state"] for row in listed["applications"])

    killed = tfapp.start(*own, "-e", "MODE=strict")
    wait(lambda: states() == ["FAILED", "RUNNING", "RUNNING"], states, LIMIT)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=LIMIT)
    (tmp_path / "go").touch()  # those that run go on without it
    wait(lambda: states() == ["FAILED", "SUCCEEDED", "SUCCEEDED"], states, LIMIT)

    again = tfapp(*own, "-e", "MODE=strict", "--format", "json")
    assert (again.code, again.err.count("SUCCEEDED before")) == (65, 2)
    points = document(again.out, "grid")["points"]
    assert [point["state"] for point in points] == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert [point["parameters"]["rate"] for point in points] == ["bad", "0.1", "0.2"]
    assert "no such rate" in points[0]["summary"]
    assert points[1]["metrics"] == {"worker/0 step": 1, "worker/0 loss": 0.5} | {
        "worker/0 seconds": points[1]["metrics"]["worker/0 seconds"]
    }

    # The program is mended: what failed goes on in its folder, the others are kept.
    mended = tfapp(*own, "-e", "MODE=lax")
    assert mended.code == 0, mended.err
    runs = [(tfapp.home / "checkpoints" / p["name"] / "runs").read_text() for p in points]
    assert runs == ["strict" * 2 + "lax", "strict", "strict"]
    header, *rows = mended.out.splitlines()
    assert header.split() == ["NAME", "rate", "size", "STATE", "DURATION", "step", "loss"]
    assert [row.split()[1:4] for row in rows] == [
        [rate, "7", "SUCCEEDED"] for rate in ("bad", "0.1", "0.2")
    ]


def test_ctrl_c_leaves_nothing_that_runs(tfapp, tmp_path):
    program = tfapp.program(PROGRAM.format(go=tmp_path / "go"))
    (tfapp.work / "points.yaml").write_text("{env.MODE: [a, b], size: 7}")
    own = ("grid", program, "--points", "points.yaml", "--name", "g", "--", "first")
    process = tfapp.start(*own)

    def begun() -> bool:
        return len([*tfapp.home.glob("checkpoints/*/runs")]) == 2

    wait(begun, "they do not run", LIMIT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out.count("KILLED")) == (130, 2), err
    assert tfapp.left() == []


def test_the_command_of_the_page(tfapp):
    page = (README.parent / "docs" / "grid.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"(?ms)^```sh\ntfapp (.*?)^```$", page)
    example = (README.parent / "examples/digits-grid/README.md").read_text(encoding="utf-8")
    assert f"tfapp {command}" in example
    words = [README.parent / word if "/" in word else word for word in command.split()]
    checked = tfapp(*words, "--dry-run")
    assert checked.code == 0, checked.err
    names = [line.split()[0] for line in checked.out.splitlines()[1:]]
    assert (len(names), tfapp.names()) == (6, [])
    shown = re.findall(r"(?m)^digits-\w{10}", page)
    assert shown[:3] == names[:3]
