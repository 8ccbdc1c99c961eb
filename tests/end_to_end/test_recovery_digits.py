"""Real TensorFlow loses what it trains on, and the digits are learned all the same. What does not
depend on TensorFlow is in test_recovery.py."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.end_to_end.trainings import (
    TENSORFLOW,
    UNHURRIED,
    Digits,
    assert_continued,
    wait_until,
    with_policy,
)
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state

pytestmark = pytest.mark.trains


def test_two_workers_lose_a_program_and_become_three(tfapp, tmp_path):
    """They go on from their checkpoint each time, in the next generation, and learn. Their master
    is killed at the worst moments, which changes nothing of it."""
    masters = ("--option", "site.global.master.attempts", 9)
    digits = Digits(tfapp, tmp_path, "digits-multiworker", *masters)
    run = Home(tfapp.home).app("digits").run(1)

    def lose_master() -> None:
        before = read_state(run)
        os.kill(before.process.pid, signal.SIGKILL)
        wait_until(lambda: read_state(run) != before, digits.told)

    def lose_master_and_program() -> None:
        digits.signal("worker/1", UNHURRIED)
        lose_master()

    def add_worker() -> None:
        tfapp.ok("flex", "digits", "--component", "worker", "+1")
        lose_master()  # while the new one starts
        lose_master()

    digits.trains()
    programs = [digits.process(f"worker/{i}", UNHURRIED) for i in (0, 1)]
    lose_master()
    digits.trains()
    assert [digits.process(f"worker/{i}", UNHURRIED) for i in (0, 1)] == programs
    assert digits.status()["generation"] == 1
    disturbances: tuple[tuple[Callable[[], object], set[str]], ...] = (
        (lose_master_and_program, set()),
        (add_worker, {"worker/2"}),
    )
    for generation, (disturb, replaced) in enumerate(disturbances, 2):
        digits.trains()
        before = digits.containers()
        disturb()
        digits.forms(generation)
        assert digits.replaced(before) == replaced
    digits.trains()
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (3, 1, 0)
    assert status["verdict"]["summary"].endswith(" It was restarted once before.")
    assert_continued(digits.epochs("worker/0"), generations=3)
    measured = {i["instance"]: (i["metrics"], i["epoch"]) for i in status["instances"]}
    assert set(measured) == {"worker/0", "worker/1", "worker/2"}
    for metrics, epoch in measured.values():
        assert {"train/epoch_loss", "train/epoch_accuracy"} <= set(metrics)
        assert metrics["train/epoch_accuracy"] > 0.5
        assert epoch == digits.trained()


def test_a_worker_a_parameter_server_and_the_chief_are_lost(tfapp, tmp_path):
    """The chief gives its work to a worker that comes back, and does not stop. What the parameter
    server held comes back from the checkpoint."""
    rule = "{rules: [{components: [worker], action: RestartInstance}]}"
    package = with_policy(TENSORFLOW, tmp_path / "package", rule)
    servers = ("digits-parameter-server", "--component", "evaluator", 0)
    digits = Digits(tfapp, tmp_path, *servers, package=package)
    digits.trains()
    digits.signal("worker/1", UNHURRIED)
    digits.trains(4)
    for generation, instance in ((2, "ps/0"), (3, "chief/0")):
        containers = digits.containers()
        digits.signal(instance, UNHURRIED)
        digits.forms(generation)
        assert digits.replaced(containers) == set()
        digits.trains()
    status = digits.enough()
    assert (status["generation"], status["restarts"]) == (3, 3)
    assert_continued(digits.epochs("chief/0"), generations=3)
    told = digits.told()
    assert "ps/0 on 127.0.0.1 was killed by SIGKILL (9) in generation 1" in told
    assert "chief/0 on 127.0.0.1 was killed by SIGKILL (9) in generation 2" in told
