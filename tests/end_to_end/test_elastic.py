"""An application that trains with fewer instances until there is room for all, on this machine."""

import re

import pytest

from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.end_to_end.trainings import Digits, assert_continued

pytestmark = pytest.mark.trains


def test_two_workers_become_three_when_there_is_room(tfapp, tmp_path):
    """One of the machine's GPUs, which TensorFlow takes note of and does not find, is in use by
    another application."""
    tfapp = CommandLine(tfapp.work, tfapp.home, environ={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    script = tfapp.program("import signal\nsignal.pause()\n", "holder.py")
    gpu = ("--resopt", "yarn.gpus", 1)
    tfapp.ok("run", script, "-w", 1, "--name", "holder", *gpu, "--detach", "--wait", LIMIT)
    times = ("--option", "site.global.elastic.wait", 2, "--option", "site.global.elastic.interval")
    three = ("--component", "worker", 3)
    digits = Digits(tfapp, tmp_path, "digits-elastic", *three, *gpu, *times, 5)
    digits.trains()
    text = tfapp.asks("status", "digits")
    assert re.search(r"^cluster +2 of 3 instances; the others join when they come$", text, re.M)
    assert "waiting for 1 GPU" in text
    status = digits.status()
    (late,) = status["joined"]
    assert (status["generation"], status["state"]) == (1, "RUNNING")
    assert f"{late} has not come: generation 1 forms without" in digits.told()
    tfapp.ok("stop", "holder", "--force")
    digits.forms(2)
    digits.trains()
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 0)
    assert {i["task"] for i in status["instances"]} == {None}
    first = "worker/1" if late == "worker/0" else "worker/0"
    assert_continued(digits.epochs(first), generations=2)
    rates = [
        re.findall(r"^(\d workers, batch .*)$", digits.log(worker), re.M)
        for worker in ("worker/0", "worker/1", "worker/2")
    ]
    said = [line for lines in rates for line in lines]
    assert said == [
        "2 workers, batch 32, learning rate 0.002",
        "3 workers, batch 48, learning rate 0.003",
    ]
