"""Programs, runners and containers are killed: the training goes on from where it was,
or the verdict says why not."""

import signal
from collections.abc import Callable

import pytest

from tests.end_to_end.trainings import COUNTING, RUNNER, Counting, wait_until, with_policy
from tfapp.processes import identify

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_what_ends_comes_back_and_instances_come_and_go(tfapp, tmp_path):
    """Each time all go on from where they were, in the next generation; only a container that has
    ended is replaced."""
    package = with_policy(COUNTING, tmp_path / "package", "{maxRestarts: 3}")
    training = Counting(tfapp, tmp_path / "checkpoints", package)
    for instance in training.instances():
        training.counted(instance)
    disturbances: tuple[tuple[Callable[[], object], set[str]], ...] = (
        (lambda: training.signal("ps/0", "program.py"), set()),
        (lambda: training.signal("worker/1", RUNNER), {"worker/1"}),
        (lambda: tfapp.ok("kill-container", "app", "chief/0"), {"chief/0"}),
        (lambda: tfapp.ok("flex", "app", "--component", "worker", "+1"), {"worker/2"}),
        (lambda: tfapp.ok("flex", "app", "--component", "worker", "-2"), set()),
    )
    least = []
    for generation, (disturb, replaced) in enumerate(disturbances, 2):
        least.append(training.counted("worker/0"))
        before = training.containers()
        disturb()
        training.forms(generation)
        assert training.replaced(before) == replaced
        training.begins("worker/0", generation)
    assert list(training.instances()) == ["chief/0", "worker/0", "ps/0"]
    assert training.beginnings("worker/2") == [(5, 0)]
    refused = tfapp("flex", "app", "--component", "worker", 4)
    assert (refused.code, refused.err) == (
        70,
        "error: worker would have 4 instances, 3 is the most\n",
    )
    assert training.enough().endswith(" It was restarted 3 times before.")
    assert training.status()["restarts"] == 3
    first, *later = training.beginnings("worker/0")
    assert first == (1, 0)
    assert [generation for generation, _ in later] == [2, 3, 4, 5, 6]
    assert all(step >= reached for (_, step), reached in zip(later, least))
    told = training.told()
    assert "worker/1 on 127.0.0.1 was lost in generation 2: its container ended without" in told
    assert "generation 3 starts, 4 instances\n" in told


@pytest.mark.slow  # two silences
def test_what_stands_still_does_not_hold_up_the_others(tfapp, tmp_path):
    """A stopped program, then a stopped runner: its program, which goes on until the silence is a
    loss, is gone when its successor starts."""
    training = Counting(tfapp, tmp_path / "checkpoints")
    training.counted("worker/0")
    containers = training.containers()
    training.signal("worker/1", "program.py", signal.SIGSTOP)
    training.forms(2)
    assert training.replaced(containers) == set()
    program = training.process("worker/0")
    training.signal("worker/0", RUNNER, signal.SIGSTOP)
    training.forms(3)
    assert identify(program) is None
    assert training.replaced(containers) == {"worker/0"}
    training.enough()
    status = training.status()
    assert (status["generation"], status["restarts"], status["losses"]) == (3, 1, 1)
    assert [generation for generation, _ in training.beginnings("chief/0")] == [1, 2, 3]
    told = training.told()
    assert "worker/1 on 127.0.0.1 hung in generation 1" in told
    assert "worker/0 on 127.0.0.1 was lost in generation 2: nothing was heard of it" in told


@pytest.mark.parametrize("saves", [False, True])
def test_a_failure_that_repeats(tfapp, tmp_path, saves):
    """With a new checkpoint in each generation it is restarted until the budget is spent."""
    folder = with_policy(COUNTING, tmp_path / "package", "{maxRestarts: 2, startupSeconds: 0}")
    (folder / "files" / "program.py").write_text(
        "import os, pathlib, sys, time\n"
        "folder = pathlib.Path(os.environ['TFAPP_CHECKPOINT_DIR'])\n"
        "folder.mkdir(parents=True, exist_ok=True)\n"
        "(folder / f'events.out.tfevents.{time.time_ns()}').touch()\n"
        f"{saves} and (folder / f'ckpt-{{time.time_ns()}}.index').touch()\n"
        "sys.exit(f'no data at {time.time()} in {id(sys):#x}')\n"
    )
    tfapp.ok("create", "app", "--appdef", folder, "--detach")
    ended = tfapp("wait", "app")
    assert (ended.code, tfapp.left()) == (65, [])
    status = tfapp.status("app")["status"]
    generation = 3 if saves else 2
    assert (status["generation"], status["restarts"]) == (generation, generation - 1)
    key = "maxRestarts" if saves else "endOnRepeatedFailure"
    assert status["verdict"]["summary"].endswith(f" (failurePolicy.{key}).")


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
