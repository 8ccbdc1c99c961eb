"""Real TensorFlow loses what it trains on, and the digits are learned all the same."""

from __future__ import annotations

import pytest

from tests.end_to_end import trainings
from tests.end_to_end.trainings import (
    TENSORFLOW,
    UNHURRIED,
    Digits,
    assert_continued,
    with_policy,
)


@pytest.fixture
def patient(tfapp, monkeypatch):
    monkeypatch.setattr("tests.end_to_end.command_line.LIMIT", trainings.LIMIT)
    return tfapp


def test_two_workers_survive_everything(patient, tmp_path):
    trainings.survives(Digits(patient, tmp_path, "digits-multiworker"))


WITH_SERVERS = ("digits-parameter-server", "--component", "evaluator", 0)


def test_a_worker_comes_back_to_its_parameter_server(patient, tmp_path):
    """The chief gives its work to it again, and never stops."""
    rule = "{rules: [{components: [worker], action: RestartInstance}]}"
    package = with_policy(TENSORFLOW, tmp_path / "package", rule)
    digits = Digits(patient, tmp_path, *WITH_SERVERS, package=package)
    digits.trains(2)
    digits.signal("worker/1", UNHURRIED)
    digits.trains(4)
    status = digits.enough()
    assert (status["generation"], status["restarts"]) == (1, 1)
    assert_continued(digits.epochs("chief/0"), generations=1)


def test_a_lost_parameter_server_and_a_lost_chief(patient, tmp_path):
    """What the parameter server held comes back from the checkpoint."""
    digits = Digits(patient, tmp_path, *WITH_SERVERS)
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
