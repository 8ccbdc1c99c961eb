"""The application master, a process beside the Spark driver, is lost or hangs at the moments of an
application's life, with what else may be lost then. docs/failures.md has what follows."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tfapp
from tests.clusters.spark.conftest import coordinator, held_slots, wait_for
from tests.clusters.spark.test_cluster import executors
from tests.clusters.spark.test_engine import above, living
from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.test_deaths import BACK, FOLLOWED
from tests.end_to_end.test_saving import (
    IN_STEP,
    Training,
    lost_before_and_while_programs_save,
    lost_before_and_while_programs_save_for_the_stop,
)
from tests.masters import ATTEMPTS, OPTION, keep_away
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state, read_status
from tfapp.errors import UnknownApplicationError
from tfapp.processes import (
    Process,
    descendants,
    environment,
    identify,
    is_alive,
    send,
    with_environment,
)

LARGE = 2  # vcores of which an executor has one


class Life:
    """One application, and what is done to it."""

    def __init__(self, spark: Any, cluster: Any, shared: Path, home: Path):
        self.spark, self.cluster, self.shared, self.home = spark, cluster, shared, home
        self.run = Home(home / "spark").app("app").run(1)
        self.command = CommandLine(shared, home, environ={"TFAPP_ENGINE": "spark"})
        self.application: tfapp.Application
        self.lost: Process | None = None

    def begin(self, workers: int, vcores: int = 1, **more: Any) -> None:
        def train(ctx, shared=str(self.shared)):
            import os
            import pathlib
            import signal
            import sys
            import time

            def save(*_):
                time.sleep(3)
                os.write(1, b"has saved\n")  # it may have interrupted a print
                sys.exit()

            signal.signal(signal.SIGTERM, save)
            if os.path.exists("large"):  # of `lost_while_files_are_fetched`
                assert os.path.getsize("large") == 200 << 20, "the file is whole"
                assert len(os.listdir("small")) == 3000, "all of them are there"
            pid = str(os.getpid())
            pathlib.Path(shared, f"{ctx.index}-{ctx.generation}").write_text(pid)
            while True:
                time.sleep(0.1)

        size = {"worker": tfapp.Component("256 MiB", instances=workers, vcores=vcores)}
        more = {"spark": self.spark, "name": "app", "show": False, **more}
        self.application = tfapp.submit(train, size, **more)

    def fetching(self) -> bool:
        """Whether a container has a part of its files."""
        done = subprocess.run(["pgrep", "-fa", "/bootstrap.py"], capture_output=True, text=True)
        roots = [Path(line.split()[-1]) for line in done.stdout.splitlines()]
        return any(path.stat().st_size for root in roots for path in root.glob("*/*.partial"))

    def runs(self, workers: int, vcores: int = 1) -> list[int]:
        self.begin(workers, vcores)
        return self.programs(workers)

    def programs(self, workers: int, generation: int = 1) -> list[int]:
        """The ids of the programs' processes, once they run."""
        paths = [self.shared / f"{worker}-{generation}" for worker in range(workers)]
        wait_for(lambda: all(p.exists() and p.read_text() for p in paths), "programs", 120)
        return [int(path.read_text()) for path in paths]

    def master(self) -> Process:
        return read_state(self.run).process

    def lose(self, number: int = signal.SIGKILL) -> None:
        """Ends the master, or stops it for its parent to end."""
        self.lost = self.master()
        send(self.lost, number)

    def told(self) -> str:
        return "\n".join(moment.text for moment in self.application.status().timeline)

    def is_back(self) -> None:
        wait_for(lambda: self.master() != self.lost, "another master", 120)
        assert not is_alive(self.lost), "two of them"
        wait_for(lambda: BACK in self.told(), "words on it", 120)

    def stage(self, worker: int) -> tuple[str, str]:
        """An instance's state, and what it waits for."""
        for one in self.application.status().instances:
            if one.instance == f"worker/{worker}":
                return one.state, one.preparing
        return "", ""


class Lived(NamedTuple):
    """What is to be seen then. `kept`: the programs that are those of before."""

    kept: Sequence[int]
    workers: int = 2
    generation: int = 1
    losses: int = 0
    restarts: int = 0


def hangs(app: Life) -> Lived:
    before = app.runs(2)
    known = lambda: getattr(read_status(app.run), "state", "")  # noqa: E731
    wait_for(lambda: known() == "RUNNING", "record of it", 60)
    app.lose(signal.SIGSTOP)
    assert app.application.status().state == "RUNNING"
    return Lived(before)


def hangs_with_its_parent_for_a_minute(app: Life) -> Lived:
    """And the coordinator: nobody can tell runners that their master is lost. As it goes on, it
    leads."""
    app.runs(2)
    parent = read_state(app.run).parent
    hung = [parent, *descendants(parent.pid)]
    assert {app.master().pid, coordinator(app.home).pid} < {process.pid for process in hung}
    for process in hung:
        send(process, signal.SIGSTOP)
    time.sleep(60)
    for process in hung:
        send(process, signal.SIGCONT)
    return Lived((), generation=2, losses=1)


def its_coordinator_hangs(app: Life) -> Lived:
    before, hung = app.runs(2), coordinator(app.home)
    send(hung, signal.SIGSTOP)
    wait_for(lambda: FOLLOWED in app.told(), "another coordinator", 120)
    assert not is_alive(hung), "two of them"
    return Lived(before)


def away_for_longer_than_who_is_cut_off_lives(app: Life) -> Lived:
    """Its parent says that it is lost, and that no runner is cut off."""
    app.begin(2, options={OPTION: ATTEMPTS})
    before, app.lost = app.programs(2), app.master()
    keep_away(app.run)
    return Lived(before)


def lost_while_forming(app: Life) -> Lived:
    with held_slots(app.spark, app.shared / "held", 5):
        app.begin(2)
        states = lambda: sorted(app.stage(n)[0] for n in (0, 1))  # noqa: E731
        wait_for(lambda: "WAITING" in states(), "an instance that is ready")
        app.lose()
        app.is_back()
        assert "WAITING" in states()
    return Lived(app.programs(2))


def lost_while_flexing(app: Life) -> Lived:
    with held_slots(app.spark, app.shared / "held", 4):
        app.runs(2)
        app.application.flex("worker", "+1")
        wait_for(lambda: "slot of Spark" in app.stage(2)[1], "an instance that waits")
        app.lose()
        app.is_back()
    return Lived((), workers=3, generation=2)


def lost_before_it_is_asked_to_flex(app: Life) -> Lived:
    app.runs(2)
    app.lose()
    app.application.flex("worker", "+1")
    return Lived((), workers=3, generation=2)


def lost_with_a_worker(app: Life) -> Lived:
    before = app.runs(2)
    os.kill(above(before[1], "tfapp-runtime runner"), signal.SIGKILL)
    app.lose()
    return Lived((), generation=2, restarts=1)


def lost_with_an_executor(app: Life) -> Lived:
    before = app.runs(2, LARGE)
    app.lose()
    os.kill(above(before[1], "CoarseGrainedExecutorBackend"), signal.SIGKILL)
    return Lived((), generation=2, losses=1)


def hangs_while_a_machine_ends(app: Life) -> Lived:
    app.runs(2, LARGE)
    app.lose(signal.SIGSTOP)
    app.cluster.kill_worker(2)
    try:
        app.programs(2, 2)
    finally:
        app.cluster.start_worker(2)
    return Lived((), generation=2, losses=1)


def hangs_while_a_machine_is_cut_off(app: Life) -> Lived:
    """Spark begins the task of its container on the other machine, where the next master waits for
    the one that was cut off. That one's program ends by itself."""
    before = app.runs(2, LARGE)
    app.lose(signal.SIGSTOP)
    app.cluster.cut_worker(2)
    try:
        app.programs(2, 2)
        wait_for(lambda: not any(map(identify, before)), "end of what was cut off")
    finally:
        app.cluster.join_worker(2)
        app.cluster.kill_worker(2)  # it takes minutes to find the master again
        app.cluster.start_worker(2)
    return Lived((), generation=2, losses=1)


def lost_while_files_are_fetched(app: Life) -> Lived:
    """Of 200 MiB and 3,000 small files. An instance that joins gets them from the next one."""
    small, large = app.shared / "small", app.shared / "large"
    small.mkdir()
    for number in range(3000):
        (small / str(number)).write_text(str(number))
    with large.open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(1 << 20))
    app.begin(2, files=[large, small])
    for _ in range(5000):
        if app.fetching():
            break
        time.sleep(0.005)
    assert app.fetching()
    app.lose()
    before = app.programs(2)
    app.is_back()
    assert set(before) == set(app.programs(2))
    app.application.flex("worker", "+1")
    return Lived((), workers=3, generation=2)


HAPPENS: tuple[Callable[[Life], Lived], ...] = (
    hangs,
    hangs_with_its_parent_for_a_minute,
    its_coordinator_hangs,
    away_for_longer_than_who_is_cut_off_lives,
    lost_while_forming,
    lost_while_flexing,
    lost_before_it_is_asked_to_flex,
    lost_while_files_are_fetched,
    lost_with_a_worker,
    lost_with_an_executor,
    hangs_while_a_machine_ends,
    hangs_while_a_machine_is_cut_off,
)


@pytest.fixture
def life(spark, cluster, shared, tfapp_home):
    """An executor on each worker: another test may have left both on one."""
    wait_for(lambda: len(cluster.registered()) == 2, "both workers")
    wait_for(lambda: len(cluster.web()["activeapps"]) == 1, "end of another test's driver")
    for worker in (1, 2):
        for executor in cluster.executors(worker)[1:]:
            executor.send(signal.SIGKILL)
    wait_for(lambda: all(len(cluster.executors(worker)) == 1 for worker in (1, 2)), "one on each")
    wait_for(lambda: executors(spark) == 2, "both executors")
    app = Life(spark, cluster, shared, tfapp_home)
    yield app
    with contextlib.suppress(UnknownApplicationError):  # it is destroyed
        if app.application.status().verdict is None:
            app.application.stop(force=True)


@pytest.mark.weekly
@pytest.mark.parametrize("what", HAPPENS, ids=lambda what: what.__name__)
def test_the_application_goes_on(life, what):
    lived = what(life)
    if life.lost is not None:
        life.is_back()
    now = life.programs(lived.workers, lived.generation)
    states = lambda: [one.state for one in life.application.status().instances]  # noqa: E731
    wait_for(lambda: states() == ["RUNNING"] * lived.workers, "all instances", 60)
    status, told = life.application.status(), life.told()
    found = (status.generation, status.losses, status.restarts)
    assert found == (lived.generation, lived.losses, lived.restarts), told
    assert (BACK in told) == (life.lost is not None), told
    assert all(map(identify, now)), told
    assert set(lived.kept) <= set(now), told
    heard = lambda: len(life.application.stacks().instances) == lived.workers  # noqa: E731
    wait_for(heard, "programs, which hear the master that there is", 60)
    assert life.application.stop().state == "KILLED"
    wait_for(lambda: not living(), "end of all containers")


@pytest.mark.weekly
@pytest.mark.parametrize("when", ["before it is asked", "as it hangs", "while programs end"])
def test_lost_while_it_stops(life, when):
    """The programs have their grace."""
    life.runs(2)
    if when != "while programs end":
        life.lose(signal.SIGKILL if when == "before it is asked" else signal.SIGSTOP)
    stopping = life.command.start("stop", "app")
    if when == "while programs end":
        wait_for(lambda: life.application.status().state == "STOPPING", "STOPPING")
        life.lose()
    _, problems = stopping.communicate(timeout=300)
    assert stopping.returncode == 0, problems
    status = life.application.status()
    assert (status.state, status.generation, status.losses) == ("KILLED", 1, 0), problems
    logs = life.application.logs()
    assert all("has saved" in logs[f"worker/{worker}"] for worker in (0, 1)), logs
    wait_for(lambda: not living(), "end of all containers")


class Saves(Training):
    """As commands beside this driver see it."""

    def __init__(self, life: Life, **options: Any):
        self.tfapp, self.name, self.life = life.command, "app", life
        script = self.tfapp.program(IN_STEP)
        more = {"options": options, "checkpoints": life.shared / "checkpoints"}
        workers = {"worker": tfapp.Component("256 MiB", instances=2)}
        more |= {"spark": life.spark, "name": "app", "show": False}
        life.application = tfapp.submit(script, workers, **more)
        life.application.wait_until_running(300)

    def lose(self, what: str) -> None:
        self.life.lose() if what == "master" else send(coordinator(self.life.home), signal.SIGKILL)

    def is_asked(self) -> None:
        """By the file that its program knows, in a folder of its executor."""
        first, mine = b"worker/0", os.fsencode(self.life.shared / "checkpoints" / "app")
        is_it = lambda env: (  # noqa: E731
            (env.get(b"TFAPP_INSTANCE"), env.get(b"TFAPP_CHECKPOINT_DIR")) == (first, mine)
        )
        found = [environment(process.pid) for process in with_environment(is_it)]
        (request,) = {os.fsdecode(env[b"TFAPP_SAVE_FILE"]) for env in found if env}
        wait_for(Path(request).exists, "a request to save")


def test_lost_before_and_while_programs_save_for_the_stop(life):
    training = Saves(life)
    training.begins([0], [0])
    lost_before_and_while_programs_save_for_the_stop(training, "master", generation=1)
    wait_for(lambda: not living(), "end of all containers")


@pytest.mark.weekly
@pytest.mark.parametrize("what", ["master", "coordinator"])
def test_lost_before_and_while_programs_save(life, what):
    """All save at one step, what was planned follows, and nothing is charged."""
    lost_before_and_while_programs_save(Saves(life, **{OPTION: ATTEMPTS}), what)
    wait_for(lambda: not living(), "end of all containers")


@pytest.mark.weekly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_lost_before_it_is_destroyed(life, number):
    life.runs(2)
    life.lose(number)
    life.command.ok("destroy", "app", "--force")
    assert life.command.names() == []
    wait_for(lambda: not living(), "end of all containers")
    tracker = life.spark.sparkContext.statusTracker()
    wait_for(lambda: not tracker.getActiveJobsIds(), "end of its jobs")
