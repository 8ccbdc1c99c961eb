"""Programs, runners and containers are killed and stopped: the training goes on from where it was,
or the verdict says why not."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine

COUNTING = PLAIN_PACKAGE.parent / "counting"
BEGINS = re.compile(r"generation (\d+) goes on at step (\d+)")


class Training:
    """The application "app": chief/0, worker/0, worker/1 and ps/0 count their steps."""

    def __init__(self, tfapp: CommandLine, checkpoints: Path, package: Path = COUNTING):
        self.tfapp = tfapp
        self.checkpoints = checkpoints / "app"
        prefix = ("--option", "site.global.user.checkpoint.prefix", checkpoints)
        flags = ("--appdef", package, *prefix, "--detach", "--wait", 60)
        tfapp.ok("create", "app", *flags)

    def process(self, instance: str, command: str = "program.py") -> int:
        return self.tfapp.process("app", instance, command)

    def instances(self) -> dict[str, dict]:
        return {i["instance"]: i for i in self.status()["instances"]}

    def status(self) -> dict:
        return self.tfapp.status("app")["status"]

    def containers(self) -> dict[str, str]:
        return {name: i["container"] for name, i in self.instances().items()}

    def forms(self, generation: int) -> dict:
        """Waits until all programs of a generation have started."""
        end = time.monotonic() + LIMIT
        while True:
            status = self.status()
            states = {instance["state"] for instance in status["instances"]}
            if status["generation"] >= generation and states == {"RUNNING"}:
                assert status["generation"] == generation
                return status
            assert time.monotonic() < end, status

    def counted(self, instance: str) -> int:
        """Waits for a first step, and returns how many there are."""
        end = time.monotonic() + LIMIT
        file = self.checkpoints / instance.replace("/", "-")
        while not file.exists():
            assert time.monotonic() < end, f"{instance} has counted nothing"
        return int(file.read_text())

    def beginnings(self, instance: str) -> list[tuple[int, int]]:
        """(generation, step) of each beginning of the program of `instance`, over the logs of all
        its containers."""
        text = self.tfapp.ok("logs", "app", instance)
        return [(int(g), int(step)) for g, step in BEGINS.findall(text)]

    def enough(self) -> str:
        """Lets all programs end. The verdict, after which nothing lives."""
        (self.checkpoints / "enough").touch()
        ended = self.tfapp("wait", "app")
        assert (ended.code, self.tfapp.living()) == (0, [])
        return self.status()["verdict"]["summary"]


@pytest.fixture
def training(tfapp, tmp_path):
    found = Training(tfapp, tmp_path / "checkpoints")
    for instance in found.instances():
        found.counted(instance)
    return found


@pytest.mark.parametrize("instance", ["worker/1", "chief/0", "ps/0"])
def test_a_killed_program(training, instance):
    steps, containers = training.counted("worker/0"), training.containers()
    os.kill(training.process(instance), signal.SIGKILL)
    training.forms(2)
    assert training.containers() == containers
    (first, again) = training.beginnings("worker/0")
    assert (first, again[0]) == ((1, 0), 2)
    assert again[1] >= steps
    assert training.enough().endswith(" It was restarted once before.")
    assert training.status()["restarts"] == 1


def test_a_killed_runner(training):
    containers = training.containers()
    os.kill(training.process("worker/1", "tfapp-runtime\0runner"), signal.SIGKILL)
    training.forms(2)
    now = training.containers()
    assert {name for name in now if now[name] != containers[name]} == {"worker/1"}
    training.enough()
    told = training.tfapp.ok("diagnostics", "app")
    assert "worker/1 on 127.0.0.1 was lost in generation 1: its container ended without" in told
    assert "generation 2 starts, 4 instances\n" in told


def test_a_killed_container(training):
    containers = training.containers()
    training.tfapp.ok("kill-container", "app", "chief/0")
    training.forms(2)
    now = training.containers()
    assert {name for name in now if now[name] != containers[name]} == {"chief/0"}
    training.enough()


def test_a_stopped_program(training):
    os.kill(training.process("worker/0"), signal.SIGSTOP)
    training.forms(2)
    training.enough()
    assert "worker/0 on 127.0.0.1 hung in generation 1" in training.tfapp.ok("diagnostics", "app")


def test_a_stopped_runner(training):
    """Its program goes on until the silence is a loss, and is gone when its successor starts."""
    program = training.process("worker/0")
    os.kill(training.process("worker/0", "tfapp-runtime\0runner"), signal.SIGSTOP)
    training.forms(2)
    assert not Path(f"/proc/{program}").exists()
    training.enough()
    assert training.status()["losses"] == 1


def test_the_same_failure_until_the_budget_is_spent(tfapp, tmp_path):
    folder = package(tmp_path, "maxRestarts: 2", "startupSeconds: 0")
    (folder / "files" / "program.py").write_text("import sys; sys.exit('no data')\n")
    tfapp.ok("create", "app", "--appdef", folder, "--detach")
    ended = tfapp("wait", "app")
    assert (ended.code, tfapp.living()) == (65, [])
    status = tfapp.status("app")["status"]
    assert (status["generation"], status["restarts"]) == (3, 2)
    assert (
        "It was not restarted again: that was done twice (failurePolicy.maxRestarts)."
        in (status["verdict"]["summary"])
    )
    assert status["verdict"]["cause"]["last_lines"] == "no data"


def test_a_broken_program_is_not_restarted(tfapp, tmp_path):
    folder = package(tmp_path)
    (folder / "files" / "program.py").write_text("import sys; sys.exit(3)\n")
    tfapp.ok("create", "app", "--appdef", folder, "--detach")
    assert tfapp("wait", "app").code == 65
    status = tfapp.status("app")["status"]
    assert (status["generation"], status["restarts"]) == (1, 0)
    assert "is taken for broken and is not restarted" in status["verdict"]["summary"]


def test_one_program_starts_again_at_its_address(tfapp, tmp_path):
    rule = "rules: [{components: [worker], action: RestartInstance}]"
    training = Training(tfapp, tmp_path / "checkpoints", package(tmp_path, rule))
    training.counted("worker/1")
    others = [training.process(name) for name in ("chief/0", "worker/0", "ps/0")]
    exports = training.instances()["worker/1"]["exports"]
    killed = training.process("worker/1")
    os.kill(killed, signal.SIGKILL)
    end = time.monotonic() + LIMIT
    while len(training.beginnings("worker/1")) < 2:
        assert time.monotonic() < end
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


def package(tmp_path: Path, *policy: str) -> Path:
    """The counting package with lines of a failurePolicy."""
    folder = tmp_path / "package"
    for file in sorted(COUNTING.rglob("*.*")):
        target = folder / file.relative_to(COUNTING)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text())
    lines = "".join(f"    {line}\n" for line in policy)
    if policy:
        with (folder / "metainfo.yaml").open("a") as metainfo:
            metainfo.write(f"  failurePolicy:\n{lines}")
    return folder
