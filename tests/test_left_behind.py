"""A test session leaves nothing running, even when it is killed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.left_behind import LIMIT, left

# It starts a process that starts one with nothing in its environment.
SESSION = """
import subprocess, sys
from pathlib import Path
from tests.left_behind import watched
with watched(Path(sys.argv[1])):
    command = "env -i sleep 600 & echo started; exec sleep 600"
    subprocess.Popen(["sh", "-c", command], start_new_session=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_nothing_is_left(tmp_path, killed):
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, tmp_path],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as session:
        assert session.stdout.readline() == b"started\n"
        wait_for(3, tmp_path)  # the two, and what watches over them
        if killed:
            session.kill()
    wait_for(0, tmp_path)


def wait_for(processes: int, folder: Path) -> None:
    """Asks until the answer is right: `sh` has no environment while it becomes `sleep`."""
    end = time.monotonic() + LIMIT
    while len(found := left(folder)) != processes:
        assert time.monotonic() < end, found
        time.sleep(0.05)
