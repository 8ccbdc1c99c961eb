"""The application master is lost, or hangs, at the moments of an application's life, with what else
may be lost then. YARN ends all containers with it; the next master goes on from the record."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.clusters.yarn import programs
from tests.clusters.yarn.conftest import OnCluster, describe, program, recorded
from tests.clusters.yarn.test_faults import JAVA, LOST_AND_BACK, of_yarn, said_attempts
from tests.end_to_end.command_line import known_of, read_until
from tests.end_to_end.trainings import COORDINATOR, LIMIT, RUNNER, Application, wait_until
from tfapp.engines.yarn.attempts import MEMORY_USED

pytestmark = [pytest.mark.weekly, pytest.mark.usefixtures("nothing_left")]

OF_WORKERS = ("--rescompopt", "worker")
LABEL = (*OF_WORKERS, "yarn.label.expression", "special")  # of one node, with 8192 MiB
MEMORY = (*OF_WORKERS, "yarn.memory")
COMPONENTS = ("chief", "worker", "ps", "evaluator", "tensorboard", "dispatcher", "dataworker")
OF_MASTER = 4  # processes, at least: YARN's shell, Java, the coordinator, its watchdog


class Life(Application):
    """One application, and what is done to it."""

    def __init__(self, tfapp: OnCluster, cluster: program.Cluster, name: str):
        self.tfapp = tfapp
        self.cluster = cluster
        self.name = name

    def begin(self, workers: int, *flags: object) -> None:
        script = self.tfapp.program(programs.GOES_ON)
        self.tfapp.ok("run", script, "-w", workers, "--name", self.name, *flags, "--detach")

    def runs(self, workers: int, *flags: object) -> None:
        self.begin(workers, *flags)
        self.forms(1)

    def status(self) -> dict[str, Any]:
        """Once its master answers: YARN does not know at once that it is lost."""
        words = ("status", self.name, "--format", "json")
        asked = wait_until(
            lambda: (now := self.tfapp.here(*words)).code == 0 and now, lambda: words
        )
        return json.loads(asked.out)["status"]

    @contextlib.contextmanager
    def without_room(self) -> Iterator[None]:
        """The node with the label has room for one worker of 2500 MiB, not for two."""
        holder = Life(self.tfapp, self.cluster, f"{self.name}-holder")
        holder.runs(1, *LABEL, *MEMORY, 5000)
        try:
            yield
        finally:
            self.tfapp.ok("stop", holder.name, "--force")

    def java(self) -> int:
        return self.process("", JAVA)

    def in_master(self) -> list[program.Process]:
        """The processes in the container of the first master."""
        mark = self.tfapp.mark(self.tfapp.status(self.name)) + b"01_000001\0"
        found = self.cluster.container_processes()
        return [p for p in found if mark in known_of(p.pid)[0]]

    def master_node(self) -> int:
        host = of_yarn(self.cluster, self)["amHostHttpAddress"].partition(":")[0]
        return int(host.rpartition(".")[2]) - 1

    def recorded(self) -> dict[str, Any]:
        """The newest status in its record, once there is one."""
        id = self.tfapp.status(self.name)["id"]
        return wait_until(lambda: recorded(self.cluster, id), self.told)

    def lose(self) -> None:
        os.kill(self.java(), signal.SIGKILL)

    def is_back(self) -> None:
        wait_until(lambda: LOST_AND_BACK in self.told(), self.told)

    def state(self, instance: str) -> str:
        return self.instances()[instance]["state"]


def are_gone(processes: list[program.Process]) -> None:
    left = lambda: [describe(process) for process in processes if process.alive()]  # noqa: E731
    wait_until(lambda: not left(), left)


@contextlib.contextmanager
def hanging(processes: list[program.Process]) -> Iterator[None]:
    """They are stopped, and then go on."""
    for process in processes:
        process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send(signal.SIGCONT)


@pytest.fixture
def app(tfapp, cluster, request) -> Life:
    """It has the name of its test."""
    name = re.sub(r"\W|_", "-", request.node.name)
    return Life(tfapp, cluster, name.removeprefix("test-the-application-goes-on-").strip("-"))


# ---- What happens -----------------------------------------------------------------------------


class Lived(NamedTuple):
    """What is to be seen then, of the status and of YARN. `instances`: how many there are."""

    generation: int = 2
    losses: int = 1
    masters: int = 2
    instances: int = 1


def lost_with_its_node(app: Life) -> Lived:
    """The worker is on another one."""
    app.runs(1, *LABEL)
    lose_node(app, app.master_node())
    return Lived()


def lost_with_its_node_and_a_worker(app: Life) -> Lived:
    app.runs(2)
    lose_node(app, app.master_node())
    return Lived(instances=2)


def lose_node(app: Life, node: int) -> None:
    app.cluster.kill_node(node)
    for process in app.cluster.container_processes(node):
        process.send(signal.SIGKILL)
    try:
        app.forms(2)
    finally:
        app.cluster.start_node(node)


def cut_off_with_its_node_and_a_worker(app: Life) -> Lived:
    """Both live on there, and end by themselves."""
    app.runs(2)
    node = app.master_node()
    old = app.cluster.container_processes(node)
    assert len(old) > OF_MASTER, "and those of the worker"
    app.cluster.kill_node(node)
    try:
        app.forms(2)
        are_gone(old)
    finally:
        app.cluster.start_node(node)
    return Lived(instances=2)


def hangs_with_its_node_until_another_one_has_its_place(app: Life) -> Lived:
    """As it goes on it leaves, and does nothing else."""
    app.runs(1, *LABEL)
    node = app.master_node()
    old = app.in_master()
    assert len(old) >= OF_MASTER, old
    app.cluster.pause_node(node)
    try:
        with hanging(old):
            app.forms(2)
            before = app.containers()
        are_gone(old)
    finally:
        app.cluster.resume_node(node)
    assert app.containers() == before
    assert app.recorded()["generation"] == 2, "what it may still write does not count"
    return Lived()


def killed_with_a_worker(app: Life) -> Lived:
    app.runs(2)
    runner = app.process("worker/0", RUNNER)
    app.lose()
    os.kill(runner, signal.SIGKILL)
    return Lived(instances=2)


def killed_while_forming(app: Life) -> Lived:
    with app.without_room():
        app.begin(2, *LABEL, *MEMORY, 2500)
        wait_until(lambda: app.state("worker/0") == "WAITING", app.told)
        app.lose()
        app.is_back()
    return Lived(instances=2)


def killed_while_flexing(app: Life) -> Lived:
    """What trained goes on without the new one, which joins later."""
    with app.without_room():
        app.runs(1, *LABEL, *MEMORY, 2500)
        app.tfapp.ok("flex", app.name, "--component", "worker", "+1")
        wait_until(lambda: len(app.recorded()["instances"]) == 2, app.told)
        app.lose()
        app.is_back()
        wait_until(lambda: app.state("worker/0") == "RUNNING", app.told)
        assert (app.status()["generation"], app.state("worker/1")) == (2, "REQUESTED")
    return Lived(generation=3, instances=2)


def hangs_for_a_minute(app: Life) -> Lived:
    """Its runners end after half of it. The same one goes on, with other containers."""
    app.runs(1)
    with hanging(app.in_master()):
        time.sleep(60)
    return Lived(masters=1)


def its_coordinator_hangs(app: Life) -> Lived:
    app.runs(1)
    os.kill(app.process("", COORDINATOR), signal.SIGSTOP)
    return Lived()


def its_java_hangs(app: Life) -> Lived:
    app.runs(1)
    os.kill(app.java(), signal.SIGSTOP)
    return Lived()


def hangs_until_yarn_gives_it_up(app: Life) -> Lived:
    """Which kills it then."""
    app.cluster.kill_manager()
    app.cluster.start_manager(master_expiry=20_000)
    try:
        app.runs(1)
        old, acts = app.in_master(), {app.java(), app.process("", COORDINATOR)}
        with hanging(old):
            app.forms(2)
            are_gone([process for process in old if process.pid in acts])
        are_gone(old)  # YARN's own shell, too
    finally:
        app.cluster.kill_manager()
        app.cluster.start_manager()
    return Lived()


def without_a_resource_manager(app: Life) -> Lived:
    """The programs go on."""
    app.runs(1)
    before = app.containers()
    app.cluster.kill_manager()
    time.sleep(10)
    assert app.status()["generation"] == 1
    app.cluster.start_manager()
    time.sleep(10)
    assert app.containers() == before
    return Lived(generation=1, losses=0, masters=1)


def killed_without_a_resource_manager(app: Life) -> Lived:
    app.runs(1)
    java = app.java()
    app.cluster.kill_manager()
    os.kill(java, signal.SIGKILL)
    time.sleep(10)
    app.cluster.start_manager()
    return Lived()


HAPPENS: tuple[Callable[[Life], Lived], ...] = (
    lost_with_its_node,
    lost_with_its_node_and_a_worker,
    cut_off_with_its_node_and_a_worker,
    hangs_with_its_node_until_another_one_has_its_place,
    killed_with_a_worker,
    killed_while_forming,
    killed_while_flexing,
    hangs_for_a_minute,
    its_coordinator_hangs,
    its_java_hangs,
    hangs_until_yarn_gives_it_up,
    without_a_resource_manager,
    killed_without_a_resource_manager,
)


@pytest.mark.parametrize("what", HAPPENS, ids=lambda what: what.__name__)
def test_the_application_goes_on(app, what):
    lived = what(app)
    status = app.forms(lived.generation)
    told = app.told()
    found = [status[key] for key in ("generation", "restarts", "losses")]
    assert found == [lived.generation, 0, lived.losses], told
    assert told.count(LOST_AND_BACK) == lived.masters - 1, told
    assert len(said_attempts(app.cluster, app)) == lived.masters
    assert len(status["instances"]) == lived.instances
    heard = lambda: re.search(r" (is|are) in .* at program\.py:", app.tfapp("stacks", app.name).out)  # noqa: E731
    wait_until(heard, app.told)
    app.tfapp.ok("stop", app.name)
    assert app.status()["state"] == "KILLED"
    assert of_yarn(app.cluster, app)["finalStatus"] == "KILLED"


def test_lost_before_it_is_asked_to_stop(app):
    """Nothing runs that could be asked: YARN ends it. What the master had recorded is known."""
    app.runs(1)
    assert app.recorded()["generation"] == 1
    app.lose()
    assert app.tfapp("stop", app.name).code == 0
    status = app.wait_for_end(66)
    told = [status[key] for key in ("state", "generation", "restarts", "losses")]
    assert told == ["KILLED", 1, 0, 0]
    assert of_yarn(app.cluster, app)["finalStatus"] == "KILLED"


def test_hangs_as_it_is_asked_to_stop(app):
    """The next one is asked, too."""
    app.runs(1)
    os.kill(app.process("", COORDINATOR), signal.SIGSTOP)
    stopped = app.tfapp("stop", app.name, "--message", "enough")
    assert stopped.code == 0, stopped.err
    status = app.wait_for_end(66)
    assert (status["restarts"], status["losses"]) == (0, 1)
    assert status["verdict"]["summary"].startswith("Killed: enough.")
    assert of_yarn(app.cluster, app)["finalStatus"] == "KILLED"


def test_lost_before_it_is_destroyed(app):
    app.runs(1)
    app.lose()
    app.tfapp.ok("destroy", app.name, "--force")
    assert app.name not in app.tfapp.ok("list")


def test_lost_before_it_is_asked_to_flex(app):
    """The next one is asked."""
    app.runs(1)
    app.recorded()
    app.lose()
    app.tfapp.ok("flex", app.name, "--component", "worker", "+1")
    states = lambda: [i["state"] for i in app.status()["instances"]]  # noqa: E731
    wait_until(lambda: states() == ["RUNNING"] * 2, app.told)
    assert app.status()["losses"] == 1
    app.tfapp.ok("stop", app.name)


# Stands for the coordinator's Python: beside the first one, in the container of the master, another
# process takes memory once a file is there.
TAKES_MEMORY = """\
#!/bin/sh
case "$CONTAINER_ID $*" in
*_01_000001*" coordinator") "{python}" -c '
import os, time
while not os.path.exists("{file}"):
    time.sleep(0.1)
held = b"x" * (1 << 30)
time.sleep(600)
' &
esac
exec "{python}" "$@"
"""


def test_the_memory_of_its_container_is_used_up(app, tmp_path):
    """On the node that ends containers for that. The next one says which key to raise."""
    python, full = tmp_path / "python", tmp_path / "full"
    python.write_text(TAKES_MEMORY.format(python=sys.executable, file=full))
    python.chmod(0o755)
    flags = ["--rescompopt", "slider-appmaster", "yarn.memory", 512]
    for name in ("slider-appmaster", *COMPONENTS):
        flags += ["--rescompopt", name, "yarn.label.expression", "special"]
    app.runs(1, *flags, "--option", "site.global.python.executable", python)
    assert app.recorded()["generation"] == 1
    full.touch()
    status = app.forms(2)
    assert (status["restarts"], status["losses"]) == (0, 1)
    assert f"{LOST_AND_BACK}: {MEMORY_USED}" in [m["text"] for m in status["timeline"]]
    assert len(said_attempts(app.cluster, app)) == 2
    app.tfapp.ok("stop", app.name)


RUNS_ON_YARN = """
from tfapp.tf_yarn import TaskSpec, run_on_yarn

def experiment_fn():
    import time
    time.sleep(600)

if __name__ == "__main__":
    run_on_yarn(experiment_fn, {"chief": TaskSpec(512, 1)}, nb_retries=1, name="retried")
"""


def test_a_call_of_tf_yarn_loses_its_master_as_often_as_it_says(app, user):
    app.tfapp.program(RUNS_ON_YARN)
    environ = {**user.environ, "TFAPP_HOME": str(user.home)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    words = [sys.executable, "program.py"]
    with subprocess.Popen(words, cwd=app.tfapp.work, env=environ, **pipes) as call:
        try:
            named = lambda: [n for n in app.tfapp.names() if n.startswith("retried")]  # noqa: E731
            (app.name,) = wait_until(named, app.tfapp.names)
            app.forms(1)
            app.lose()
            status = app.forms(2)
            assert (status["restarts"], status["losses"]) == (0, 1)
            app.lose()
            told, _ = call.communicate(timeout=LIMIT)
        finally:
            call.kill()
    assert call.returncode != 0
    assert told.count(LOST_AND_BACK) == 1, told
    assert "It had 2 masters, and gets no more: site.global.master.attempts" in told
    status = app.wait_for_end(65)
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 1)


def test_those_who_follow_are_told(app):
    """`run`, `logs -f` and `wait` go on, and end as it ends."""
    script = app.tfapp.program(programs.TAKES_A_WHILE, "program.py")
    with contextlib.ExitStack() as held:
        words = ("run", script, "-w", 1, "--name", app.name)
        run = held.enter_context(app.tfapp.start(*words))
        held.callback(run.kill)
        read_until(run, run.stdout, "begins")
        logs = held.enter_context(app.tfapp.start("logs", app.name, "worker/0", "-f"))
        held.callback(logs.kill)
        waits = held.enter_context(app.tfapp.start("wait", app.name))
        held.callback(waits.kill)
        read_until(logs, logs.stdout, "begins")
        app.lose()
        outs = {p: p.communicate(timeout=LIMIT) for p in (run, logs, waits)}
    assert [p.returncode for p in outs] == [0, 0, 0]
    status = app.status()
    assert (status["state"], status["generation"], status["losses"]) == ("SUCCEEDED", 2, 1)
    assert LOST_AND_BACK in outs[run][1]
    assert all("begins" in outs[process][0] for process in (run, logs))
    assert "Succeeded" in outs[waits][1]
