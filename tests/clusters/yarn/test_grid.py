"""The example of a grid on the real cluster: its command is killed in the middle, the same command
goes on; one point fails."""

import json
import os
import signal

import pytest

from tests.clusters.yarn.conftest import ROOT, wait_for
from tests.end_to_end.command_line import LIMIT

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.weekly]


def test_a_killed_grid_goes_on(tfapp, tmp_path):
    (tmp_path / "points.yaml").write_text("{rate: [0.01, 0.1, -1], batch: 64}")
    own = ("grid", ROOT / "examples/digits-grid/train.py", "--points", "points.yaml", "--name")
    own = (*own, "grid", "--checkpoints", tmp_path, "--retries", 0, "--format", "json")

    def applications() -> list[dict]:
        listed = json.loads(tfapp.asks("list", "--format", "json"))["applications"]
        return [row for row in listed if "grid" in row["tags"]]

    killed = tfapp.start(*own)
    wait_for(lambda: len(applications()) == 2, "two applications")
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=LIMIT)
    before = {row["id"] for row in applications()}

    ended = tfapp(*own)
    assert ended.code == 65, ended.err
    points = json.loads(ended.out)["points"]
    assert [point["state"] for point in points] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
    assert before <= {point["id"] for point in points}  # none was begun twice
    assert all(point["metrics"]["worker/0 accuracy"] > 0.9 for point in points[:2])
    assert all(point["checkpoint_dir"].startswith(str(tmp_path)) for point in points)
    tfapp.ok("destroy", "--tag", "grid")
    assert applications() == []
