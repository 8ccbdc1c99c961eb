"""Applications in run mode docker on the local engine, by the commands that people use."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.engine import BASE, EMPTY, processes_with
from tests.docker.instances import eventually, labels
from tfapp import shipped

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = shipped.app_packages_dir() / "tensorflow"
LIMIT = 120


def tfapp(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        (sys.executable, "-m", "tfapp", *words),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


class Submission:
    """An application of one worker that runs a shell script, which may fail `restarts` times."""

    def __init__(self, folder: Path, restarts: int = 0):
        self._folder = folder
        self._package = folder / "package"
        shutil.copytree(PACKAGE, self._package)
        with (self._package / "metainfo.yaml").open("a") as metainfo:
            metainfo.write(f"\n  failurePolicy: {{maxRestarts: {restarts}}}\n")

    def create(self, name: str, script: str, *words: str, mode: str = "docker"):
        program = self._folder / name / "train.sh"
        program.parent.mkdir()
        program.write_text(script)
        return tfapp(
            *("create", name, "--appdef", str(self._package), "--files", str(program)),
            *("--component", "worker", "1", "--option", "site.global.run.mode", mode),
            *("--option", "site.global.user.scripts.entry", "train.sh"),
            *("--option", "site.global.docker.image", BASE),
            *("--option", "site.global.user.checkpoint.prefix", str(self._folder / "ckpt")),
            *words,
        )

    def start(self, engine, script: str = "echo up; sleep 1000") -> str:
        """Starts `app`; the id of its Docker container once that runs."""
        done = self.create("app", script, "--detach")
        assert done.returncode == 0, done.stderr
        return eventually(lambda: running(engine), "a container")


def running(engine) -> str:
    return engine.docker("ps", "--quiet", "--no-trunc").strip()


@pytest.fixture
def submission(engine, tmp_path) -> Iterator[Submission]:
    yield Submission(tmp_path)
    for row in json.loads(tfapp("list", "--format", "json").stdout):
        tfapp("stop", row["name"], "--force")
    eventually(lambda: engine.containers() == [], "the containers' end")


@pytest.mark.parametrize(
    "script", ["exit 0", "echo no data; exit 3", "kill -9 $$"], ids=["0", "3", "SIGKILL"]
)
def test_an_end_is_told_in_the_words_of_run_mode_local(engine, submission, script):
    docker = submission.create("app", script)
    assert engine.containers() == []
    local = submission.create("other", script, mode="local")
    verdicts = [
        re.sub(r",? (after )?[0-9.]+ s( after its start)?", "", done.stderr.splitlines()[-1])
        for done in (docker, local)
    ]
    assert verdicts[0] == verdicts[1].replace("other", "app")
    assert (docker.returncode, docker.stdout) == (local.returncode, local.stdout)


def test_a_container_whose_process_is_killed(engine, submission):
    container = submission.start(engine)
    pid = int(engine.docker("inspect", "--format", "{{.State.Pid}}", container))
    os.kill(pid, signal.SIGKILL)
    done = tfapp("wait", "app")
    assert done.returncode == 65
    assert "killed by SIGKILL (9)" in tfapp("status", "app").stdout


def test_a_container_that_is_removed_by_somebody_else(engine, submission):
    engine.docker("rm", "--force", submission.start(engine))
    assert tfapp("wait", "app").returncode == 65
    assert "killed by SIGKILL (9)" in tfapp("status", "app").stdout


def test_status_shows_the_containers_id(engine, submission):
    container = submission.start(engine)
    eventually(lambda: f"(docker {container[:12]})" in tfapp("status", "app").stdout, "the id")
    told = json.loads(tfapp("status", "app", "--format", "json").stdout)
    (instance,) = told["status"]["instances"]
    assert instance["docker"] == container


def test_a_killed_program_starts_again_in_a_container_of_its_own(engine, submission, tmp_path):
    folder = tmp_path / "again"
    folder.mkdir()
    first = Submission(folder, restarts=1).start(engine)
    engine.docker("kill", "--signal", "KILL", first)
    second = eventually(lambda: {running(engine)} - {"", first}, "another container")
    assert len(second) == 1
    status = json.loads(tfapp("status", "app", "--format", "json").stdout)["status"]
    assert (status["generation"], status["restarts"]) == (2, 1)


def test_stop_leaves_no_container(engine, submission):
    container = submission.start(engine)
    assert labels(engine, container)["tfapp.application"] == "app"
    assert tfapp("stop", "app").returncode == 0
    assert engine.containers() == []
    assert tfapp("wait", "app").returncode == 66


def test_stop_by_force_leaves_no_container(engine, submission):
    submission.start(engine)
    tfapp("stop", "app", "--force")
    eventually(lambda: engine.containers() == [], "the container's end")


@pytest.mark.parametrize("who", ["tfapp-runtime\0runner", "tfapp.engines.local.daemon"])
def test_a_death_leaves_no_container(engine, submission, tfapp_home, who):
    submission.start(engine)
    # Of this test's application, and of no other on this machine.
    found = [pid for pid in processes_with(who) if belongs(pid, tfapp_home)]
    assert len(found) == 1
    os.kill(found[0], signal.SIGKILL)
    eventually(lambda: engine.containers() == [], "the container's end")
    assert tfapp("wait", "app").returncode == 65


def belongs(pid: int, home: Path) -> bool:
    words = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    words += (Path("/proc") / str(pid) / "environ").read_bytes()
    return os.fsencode(home) in words


@pytest.mark.parametrize(
    "options, sentence",
    [
        (
            ("--option", "site.global.docker.image", "no/such:1")
            + ("--option", "site.global.docker.pull", "never"),
            "image no/such:1 is not on this machine, and site.global.docker.pull is never",
        ),
        (
            ("--option", "site.global.docker.mounts", "/no/such/folder"),
            "/no/such/folder does not exist on this machine and cannot be mounted",
        ),
        (
            ("--option", "site.global.user.scripts.entry", "train.py"),
            f"TensorFlow is not installed in python3 of image {BASE}; install it or set "
            "site.global.python.executable",
        ),
        (
            ("--option", "site.global.user.scripts.entry", "train.py")
            + ("--option", "site.global.docker.image", EMPTY),
            f"python3 cannot be run in image {EMPTY}: No such file or directory; set "
            "site.global.python.executable",
        ),
    ],
    ids=["image", "mount", "no TensorFlow", "no Python"],
)
def test_what_cannot_start_is_one_sentence(engine, submission, options, sentence):
    done = submission.create("app", "exit 0", *options)
    assert done.returncode in (65, 77)
    assert sentence in done.stderr
    assert engine.containers() == []


def test_an_application_without_an_engine(submission, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    done = submission.create("app", "exit 0")
    assert done.returncode == 65
    assert "there is no Docker engine at unix:///no/such.sock" in done.stderr


def test_yarns_own_runtime_needs_yarn(submission):
    done = submission.create("app", "exit 0", mode="yarn-docker")
    assert done.returncode == 53
    assert "run mode yarn-docker is YARN's own" in done.stderr
