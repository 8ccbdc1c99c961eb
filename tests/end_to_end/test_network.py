"""The network between two nodes is cut: the test's own network namespaces, joined by a switch."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end import two_nodes
from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.end_to_end.trainings import RUNNER, Counting, wait_until
from tfapp.processes import identify

FENCE = 30.0  # seconds without the master after which a runner ends its program
LOST = 40.0  # after which the coordinator counts a silent runner as lost


class Nodes:
    """Two nodes with a network between them."""

    def __init__(self, work: Path, home: Path):
        if subprocess.run([*two_nodes.NAMESPACE, "true"], capture_output=True).returncode:
            pytest.skip("this system lets nobody make namespaces")
        self.cut_off = work / "cut"
        script = f"set -e {two_nodes.NETWORK}echo ready; read -r _"
        self._holder = subprocess.Popen(
            [*two_nodes.NAMESPACE, "sh", "-c", script],
            env={"PATH": os.environ["PATH"]},  # no TFAPP_HOME: it is no application's process
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout.readline() == "ready\n"
        target = f"--target={self._holder.pid}"
        self._enter = ("nsenter", target, "--user", "--mount", "--net", "--preserve-credentials")
        program = (sys.executable, two_nodes.__file__, str(self.cut_off))
        self.tfapp = CommandLine(work, home, (*self._enter, f"--wd={work}"), program)

    def cut(self) -> None:
        """From now on new containers start at the first node, as a cluster would see to."""
        self.cut_off.touch()
        self._run(two_nodes.UNPLUG)

    def join(self) -> None:
        self._run(two_nodes.PLUG_IN)

    def _run(self, command: str) -> None:
        subprocess.run([*self._enter, *command.split()], check=True, timeout=LIMIT)

    def close(self) -> None:
        with self._holder:
            self._holder.stdin.close()
            self._holder.wait(LIMIT)


@pytest.fixture
def nodes(tmp_path, tfapp_home) -> Iterator[Nodes]:
    work = tmp_path / "work"
    work.mkdir()
    nodes = Nodes(work, tfapp_home)
    yield nodes
    left = nodes.tfapp.kill_living()
    nodes.close()
    assert left == []


@pytest.mark.slow  # two silences
def test_a_node_that_is_cut_off_and_comes_back(nodes, tmp_path):
    """Its program is gone before others take its place, and nothing of it comes back."""
    training = Counting(nodes.tfapp, tmp_path / "checkpoints", more=("--component", "worker", 1))
    steps = training.counted("worker/0")
    hosts = {name: i["host"] for name, i in training.instances().items()}
    assert hosts == {"chief/0": "10.77.0.1", "worker/0": "10.77.0.2", "ps/0": "10.77.0.1"}
    containers = training.containers()
    runner, program = training.process("worker/0", RUNNER), training.process("worker/0")
    others = [training.process("chief/0"), training.process("ps/0")]

    began = time.monotonic()
    nodes.cut()
    is_cut = time.monotonic()
    wait_until(lambda: not Path(f"/proc/{program}").exists(), training.told)
    fenced = time.monotonic()
    assert fenced - began > FENCE - 6
    assert fenced - is_cut < LOST, "it ends itself, before the coordinator may replace it"
    wait_until(lambda: not Path(f"/proc/{runner}").exists(), training.told)
    training.forms(2)
    assert training.replaced(containers) == {"worker/0"}
    assert training.instances()["worker/0"]["host"] == "10.77.0.1"
    assert training.beginnings("worker/0")[1][1] > steps
    assert not any(map(identify, others)), "of the old generation"

    nodes.join()
    steps = training.counted("worker/0")
    wait_until(lambda: training.counted("worker/0") > steps + 10, training.told)
    assert training.enough().endswith(" It was restarted once before.")
    status = training.status()
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 1)
    told = training.told()
    assert "worker/0 on 10.77.0.2 was lost in generation 1: nothing was heard of it for" in told
