"""Programs, runners and containers are killed: the training goes on from where it was,
or the verdict says why not."""

from __future__ import annotations

import pytest

from tests.end_to_end.trainings import COUNTING, RUNNER, Counting, wait_until, with_policy


@pytest.fixture
def training(tfapp, tmp_path):
    found = Counting(tfapp, tmp_path / "checkpoints")
    for instance in found.instances():
        found.counted(instance)
    return found


@pytest.mark.parametrize("instance", ["worker/1", "chief/0", "ps/0"])
def test_a_killed_program(training, instance):
    steps, containers = training.counted("worker/0"), training.containers()
    training.signal(instance, "program.py")
    training.forms(2)
    assert training.replaced(containers) == set()
    (first, again) = training.beginnings("worker/0")
    assert (first, again[0]) == ((1, 0), 2)
    assert again[1] >= steps
    assert training.enough().endswith(" It was restarted once before.")
    assert training.status()["restarts"] == 1


def test_a_killed_runner(training):
    containers = training.containers()
    training.signal("worker/1", RUNNER)
    training.forms(2)
    assert training.replaced(containers) == {"worker/1"}
    training.enough()
    told = training.told()
    assert "worker/1 on 127.0.0.1 was lost in generation 1: its container ended without" in told
    assert "generation 2 starts, 4 instances\n" in told


def test_a_killed_container(training):
    containers = training.containers()
    training.tfapp.ok("kill-container", "app", "chief/0")
    training.forms(2)
    assert training.replaced(containers) == {"chief/0"}
    training.enough()


def test_the_same_failure_until_the_budget_is_spent(tfapp, tmp_path):
    folder = with_policy(COUNTING, tmp_path / "package", "{maxRestarts: 2, startupSeconds: 0}")
    (folder / "files" / "program.py").write_text("import sys; sys.exit('no data')\n")
    tfapp.ok("create", "app", "--appdef", folder, "--detach")
    ended = tfapp("wait", "app")
    assert (ended.code, tfapp.left()) == (65, [])
    status = tfapp.status("app")["status"]
    assert (status["generation"], status["restarts"]) == (3, 2)
    assert (
        "It was not restarted again: that was done twice (failurePolicy.maxRestarts)."
        in (status["verdict"]["summary"])
    )
    assert status["verdict"]["cause"]["last_lines"] == "no data"


def test_a_broken_program_is_not_restarted(tfapp, tmp_path):
    folder = with_policy(COUNTING, tmp_path / "package", "{}")
    (folder / "files" / "program.py").write_text("import sys; sys.exit(3)\n")
    tfapp.ok("create", "app", "--appdef", folder, "--detach")
    assert tfapp("wait", "app").code == 65
    status = tfapp.status("app")["status"]
    assert (status["generation"], status["restarts"]) == (1, 0)
    assert "is taken for broken and is not restarted" in status["verdict"]["summary"]


def test_one_program_starts_again_at_its_address(tfapp, tmp_path):
    rule = "{rules: [{components: [worker], action: RestartInstance}]}"
    package = with_policy(COUNTING, tmp_path / "package", rule)
    training = Counting(tfapp, tmp_path / "checkpoints", package)
    training.counted("worker/1")
    others = [training.process(name) for name in ("chief/0", "worker/0", "ps/0")]
    exports = training.instances()["worker/1"]["exports"]
    killed = training.process("worker/1")
    training.signal("worker/1", "program.py")
    wait_until(lambda: len(training.beginnings("worker/1")) == 2, training.told)
    assert training.process("worker/1") != killed
    assert [training.process(name) for name in ("chief/0", "worker/0", "ps/0")] == others
    assert training.instances()["worker/1"]["exports"] == exports
    assert [generation for generation, _ in training.beginnings("worker/1")] == [1, 1]
    training.enough()
    assert training.status()["generation"] == 1


def test_instances_come_and_go(training):
    steps = training.counted("worker/0")
    training.tfapp.ok("flex", "app", "--component", "worker", "+1")
    training.forms(2)
    assert training.beginnings("worker/0")[1][1] >= steps
    assert training.beginnings("worker/2") == [(2, 0)]
    training.tfapp.ok("flex", "app", "--component", "worker", "-2")
    training.forms(3)
    assert list(training.instances()) == ["chief/0", "worker/0", "ps/0"]
    refused = training.tfapp("flex", "app", "--component", "worker", 4)
    assert (refused.code, refused.err) == (
        70,
        "error: worker would have 4 instances, 3 is the most\n",
    )
    summary = training.enough()
    assert "restarted" not in summary
