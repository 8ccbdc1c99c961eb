"""Real TensorFlow loses what it trains on, and the digits are learned all the same."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.end_to_end import trainings
from tests.end_to_end.trainings import (
    RUNNER,
    TENSORFLOW,
    UNHURRIED,
    Digits,
    assert_continued,
    with_policy,
)


def test_two_workers_survive_everything(tfapp, tmp_path):
    trainings.survives(Digits(tfapp, tmp_path, "digits-multiworker"))


def test_what_stands_still_does_not_hold_up_the_others(tfapp, tmp_path):
    """A stopped program, then a stopped runner: its program, which goes on until the silence is a
    loss, is gone when its successor starts."""
    digits = Digits(tfapp, tmp_path, "digits-multiworker")
    digits.trains()
    containers = digits.containers()
    digits.signal("worker/1", UNHURRIED, signal.SIGSTOP)
    digits.forms(2)
    assert digits.replaced(containers) == set()
    digits.trains()
    program = digits.process("worker/0")
    digits.signal("worker/0", RUNNER, signal.SIGSTOP)
    digits.forms(3)
    assert not Path(f"/proc/{program}").exists()
    assert digits.replaced(containers) == {"worker/0"}
    digits.trains()
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (3, 1, 1)
    assert_continued(digits.epochs("worker/1"), generations=3)
    told = digits.told()
    assert "worker/1 on 127.0.0.1 hung in generation 1" in told
    assert "worker/0 on 127.0.0.1 was lost in generation 2: nothing was heard of it" in told


WITH_SERVERS = ("digits-parameter-server", "--component", "evaluator", 0)


def test_a_worker_comes_back_to_its_parameter_server(tfapp, tmp_path):
    """The chief gives its work to it again, and never stops."""
    rule = "{rules: [{components: [worker], action: RestartInstance}]}"
    package = with_policy(TENSORFLOW, tmp_path / "package", rule)
    digits = Digits(tfapp, tmp_path, *WITH_SERVERS, package=package)
    digits.trains(2)
    digits.signal("worker/1", UNHURRIED)
    digits.trains(4)
    status = digits.enough()
    assert (status["generation"], status["restarts"]) == (1, 1)
    assert_continued(digits.epochs("chief/0"), generations=1)


def test_a_lost_parameter_server_and_a_lost_chief(tfapp, tmp_path):
    """What the parameter server held comes back from the checkpoint."""
    digits = Digits(tfapp, tmp_path, *WITH_SERVERS)
    for generation, instance in ((2, "ps/0"), (3, "chief/0")):
        digits.trains(2)
        containers = digits.containers()
        digits.signal(instance, UNHURRIED)
        digits.forms(generation)
        assert digits.replaced(containers) == set()
    digits.trains()
    status = digits.enough()
    assert (status["generation"], status["restarts"]) == (3, 2)
    assert_continued(digits.epochs("chief/0"), generations=3)
    told = digits.told()
    assert "ps/0 on 127.0.0.1 was killed by SIGKILL (9) in generation 1" in told
    assert "chief/0 on 127.0.0.1 was killed by SIGKILL (9) in generation 2" in told
