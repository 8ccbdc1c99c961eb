"""Applications in run mode docker on the local engine, by the commands that people use."""

from __future__ import annotations

import json
import re

import pytest

from tests.docker.applications import tfapp
from tests.docker.engine import BASE, EMPTY
from tests.docker.instances import eventually, labels


@pytest.mark.parametrize(
    "script", ["exit 0", "echo no data; exit 137", "kill -9 $$"], ids=["0", "137", "SIGKILL"]
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


def test_status_shows_the_containers_id(engine, submission):
    container = submission.start(engine)
    eventually(lambda: f"(docker {container[:12]})" in tfapp("status", "app").stdout, "the id")
    told = json.loads(tfapp("status", "app", "--format", "json").stdout)
    (instance,) = told["status"]["instances"]
    assert instance["docker"] == container


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


def test_a_program_that_takes_too_much_memory(engine, submission):
    script = "exec python3 -c 'x = b\"x\" * (1 << 30)'"
    done = submission.create("app", script, "--rescompopt", "worker", "yarn.memory", "64")
    assert done.returncode == 65
    assert "was killed by SIGKILL (9): out of memory in generation 1" in done.stderr
    assert engine.containers() == []


def test_a_port_that_something_else_in_the_image_wants(engine, submission):
    """The runner holds it for a program that shares it, and for no other."""
    code = (
        "import json, os, socket\n"
        'cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]\n'
        'socket.socket().bind(("", int(cluster["worker"][0].rpartition(":")[2])))'
    )
    done = submission.create("app", f"exec python3 -c '{code}'")
    assert done.returncode == 65
    assert "OSError: [Errno 98] Address already in use" in done.stdout + done.stderr
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
