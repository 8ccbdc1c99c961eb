"""Whoever is killed, stopped or interrupted in the middle: the verdict says it in the words of run
mode local, and no container is left."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.runner.docker.applications import Submission, program_of, running, tfapp
from tests.runner.docker.engine import processes_with
from tests.runner.docker.instances import LIMIT, eventually

RUNNER, MASTER = "tfapp-runtime\0runner", "tfapp.engines.machine.daemon"
COORDINATOR, GUARD = "tfapp-runtime\0coordinator", "tfapp.runner.docker.guard"


def test_a_killed_process_has_the_verdict_of_run_mode_local(engine, submission, tmp_path):
    """The container's first process, the program below it, and a process without Docker."""
    told = tmp_path / "pid"
    script = f"(echo $$ > {told}) 2> /dev/null; exec sleep 1000"
    for name, mode in (("init", "docker"), ("program", "docker"), ("local", "local")):
        done = submission.create(name, script, "--detach", mode=mode)
        assert done.returncode == 0, done.stderr
    init = eventually(lambda: running(engine, "init"), "a container")
    program = eventually(lambda: running(engine, "program"), "another")
    victims = {
        "init": int(engine.docker("inspect", "--format", "{{.State.Pid}}", init)),
        "program": program_of(engine, program),
        "local": int(eventually(lambda: told.exists() and told.read_text(), "a process")),
    }
    verdicts = []
    for name, victim in victims.items():
        os.kill(victim, signal.SIGKILL)
        assert tfapp("wait", name).returncode == 65
        status = json.loads(tfapp("status", name, "--format", "json").stdout)["status"]
        verdicts.append(without_times(status["verdict"]))
    assert verdicts == [verdicts[2]] * 3
    assert "was killed by SIGKILL (9) in generation 1" in verdicts[0]["summary"]


def without_times(verdict: dict) -> dict:
    text = re.sub(r"[0-9.]+ s\b", "T s", json.dumps(verdict))
    return json.loads(re.sub(r'"seconds": [0-9.]+', '"seconds": 0', text))


def test_whatever_ends_or_hangs_a_program_it_starts_again_in_a_container_of_its_own(
    engine, tmp_path, submission
):
    folder = tmp_path / "again"
    folder.mkdir()
    removed = Submission(folder, restarts=3).start(engine)
    engine.docker("rm", "--force", removed)
    killed = another(engine, removed)
    engine.docker("kill", "--signal", "KILL", killed)
    paused = another(engine, killed)
    engine.docker("pause", paused)
    last = another(engine, paused)
    program = program_of(engine, last)
    os.kill(program, signal.SIGSTOP)
    assert tfapp("wait", "app").returncode == 65
    assert engine.containers() == []
    told = tfapp("diagnostics", "app").stdout
    assert "Generation 4; restarts: 3 after failures of programs" in told
    for generation, words in (
        (1, "was killed by SIGKILL [(]9[)]"),
        (2, "was killed by SIGKILL [(]9[)]"),
        (3, f"hung in generation 3, .*: its container {paused[:12]} was paused "),
        (4, f"hung in generation 4, .*: process {program} was stopped [(]SIGSTOP[)] "),
    ):
        assert re.search(words, told), (generation, told)


def another(engine, before: str) -> str:
    """The container of the next generation's program."""
    found = eventually(lambda: {running(engine)} - {"", before}, "another container")
    (container,) = found
    return container


def test_an_interrupt_leaves_no_container(engine, submission):
    command = submission.follow("app", "echo up; sleep 1000")
    eventually(lambda: running(engine), "a container")
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=2 * LIMIT)
    assert command.returncode == 130
    assert engine.containers() == []


def test_the_death_of_a_runner_or_of_the_master_leaves_no_container(
    engine, tmp_path, submission, tfapp_home
):
    folder = tmp_path / "again"
    folder.mkdir()
    first = Submission(folder, restarts=1).start(engine)
    kill(tfapp_home, RUNNER)
    second = another(engine, first)
    assert first not in engine.containers()
    _, master = sorted(of_application(tfapp_home, MASTER))  # its parent starts another one
    os.kill(master, signal.SIGKILL)

    def next_one():
        found = of_application(tfapp_home, MASTER)
        return len(found) == 2 and master not in found

    eventually(next_one, "another master")
    assert tfapp("status", "app").returncode == 0
    assert engine.containers() == [second]
    kill(tfapp_home, MASTER)
    eventually(lambda: engine.containers() == [], "the container's end")
    assert tfapp("wait", "app").returncode == 65


@pytest.mark.parametrize(
    "whose", [(RUNNER, GUARD), (RUNNER, GUARD, MASTER, COORDINATOR)], ids=["guard", "everybody"]
)
def test_what_nobody_was_left_to_remove_goes_with_the_application(
    engine, submission, tfapp_home, whose
):
    submission.start(engine)
    kill(tfapp_home, *whose)
    assert tfapp("wait", "app").returncode == 65
    assert engine.containers() == []


def kill(home: Path, *whose: str) -> None:
    """All at once, the master with its parent."""
    found = [pid for who in whose for pid in of_application(home, who)]
    assert len(found) == len(whose) + whose.count(MASTER)
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def of_application(home: Path, who: str) -> list[int]:
    """The processes of this test's application and of no other on this machine."""
    return [pid for pid in processes_with(who) if belongs(pid, home)]


def belongs(pid: int, home: Path) -> bool:
    words = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    words += (Path("/proc") / str(pid) / "environ").read_bytes()
    return os.fsencode(home) in words
