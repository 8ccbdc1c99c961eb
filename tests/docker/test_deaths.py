"""Whoever is killed, stopped or interrupted in the middle: the verdict says it in the words of run
mode local, and no container is left."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.docker.applications import Submission, program_of, running, tfapp
from tests.docker.engine import processes_with
from tests.docker.instances import LIMIT, eventually

RUNNER, MASTER = "tfapp-runtime\0runner", "tfapp.engines.local.daemon"
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


def test_a_container_that_is_removed_by_somebody_else(engine, submission):
    engine.docker("rm", "--force", submission.start(engine))
    assert tfapp("wait", "app").returncode == 65
    assert "killed by SIGKILL (9)" in tfapp("status", "app").stdout


def test_a_killed_program_starts_again_in_a_container_of_its_own(engine, submission, tmp_path):
    folder = tmp_path / "again"
    folder.mkdir()
    first = Submission(folder, restarts=1).start(engine)
    engine.docker("kill", "--signal", "KILL", first)
    second = eventually(lambda: {running(engine)} - {"", first}, "another container")
    assert len(second) == 1
    status = json.loads(tfapp("status", "app", "--format", "json").stdout)["status"]
    assert (status["generation"], status["restarts"]) == (2, 1)


def test_a_container_that_is_paused_is_a_hang(engine, submission):
    container = submission.start(engine)
    engine.docker("pause", container)
    assert tfapp("wait", "app").returncode == 65
    words = f"hung in generation 1, .*: its container {container[:12]} was paused "
    assert re.search(words, tfapp("status", "app").stdout)
    assert engine.containers() == []


def test_a_program_that_is_stopped_is_a_hang(engine, submission):
    container = submission.start(engine)
    program = program_of(engine, container)
    os.kill(program, signal.SIGSTOP)
    assert tfapp("wait", "app").returncode == 65
    words = f"hung in generation 1, .*: process {program} was stopped [(]SIGSTOP[)] "
    assert re.search(words, tfapp("status", "app").stdout)
    assert engine.containers() == []


def test_a_program_that_makes_no_progress_is_a_hang(engine, submission):
    """What it touches in its container is seen: else it would hang at the first look, after 5 s."""
    limit = ("--option", "site.global.progress.timeout", "4")
    script = "sleep 3; touch $TFAPP_PROGRESS_FILE; exec sleep 1000"
    done = submission.create("app", script, *limit)
    assert done.returncode == 65
    words = r"hung in generation 1, ([0-9.]+) s after its start: for 4 s it wrote nothing, "
    assert float(re.search(words, done.stderr)[1]) > 8
    assert engine.containers() == []


def test_an_interrupt_leaves_no_container(engine, submission):
    command = submission.follow("app", "echo up; sleep 1000")
    eventually(lambda: running(engine), "a container")
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=2 * LIMIT)
    assert command.returncode == 130
    assert engine.containers() == []


@pytest.mark.parametrize("who", [RUNNER, MASTER], ids=["runner", "master"])
def test_a_death_leaves_no_container(engine, submission, tfapp_home, who):
    submission.start(engine)
    kill(tfapp_home, who)
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
    """All at once, of this test's application and of no other on this machine."""
    found = [pid for who in whose for pid in processes_with(who) if belongs(pid, home)]
    assert len(found) == len(whose)
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def belongs(pid: int, home: Path) -> bool:
    words = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    words += (Path("/proc") / str(pid) / "environ").read_bytes()
    return os.fsencode(home) in words
