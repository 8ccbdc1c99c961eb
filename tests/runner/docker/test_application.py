"""Applications in run mode docker on the local engine, by the commands that people use."""

import json
import re

import pytest

from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.program import calls
from tests.program.digits import write_digits
from tests.runner.docker.applications import PACKAGE, tfapp
from tests.runner.docker.engine import BASE
from tests.runner.docker.flags import in_docker
from tests.runner.docker.instances import eventually, labels
from tests.waiting import wait
from tfapp.contract.status import OWN_STEP


def test_an_end_is_told_in_the_words_of_run_mode_local(engine, submission):
    script = "echo no data; exit 3"
    # A shell script's Python is asked about Keras first, in a container of its own.
    docker = submission.create("app", script, "--option", "site.global.keras.legacy", "true")
    assert engine.containers() == []
    local = submission.create("other", script, mode="local")
    verdicts = [
        re.sub(r",? (after )?[0-9.]+ s( after its start)?", "", done.stderr.splitlines()[-1])
        for done in (docker, local)
    ]
    assert verdicts[0] == verdicts[1].replace("other", "app")
    assert (docker.returncode, docker.stdout) == (local.returncode, local.stdout)


def test_status_shows_the_containers_id_and_stop_leaves_none(engine, submission):
    container = submission.start(engine)
    assert labels(engine, container)["tfapp.application"] == "app"
    eventually(lambda: f"(docker {container[:12]})" in tfapp("status", "app").stdout, "the id")
    told = json.loads(tfapp("status", "app", "--format", "json").stdout)
    (instance,) = told["status"]["instances"]
    assert instance["docker"] == container
    assert tfapp("stop", "app").returncode == 0
    assert engine.containers() == []
    assert tfapp("wait", "app").returncode == 66


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--option", "site.global.docker.mounts", "/no/such/folder"),
            "/no/such/folder does not exist on this machine and cannot be mounted",
        ),
        (
            ("--option", "site.global.user.scripts.entry", "train.py"),
            f"TensorFlow is not installed in python3 of image {BASE}; install it, add it to "
            "site.global.python.packages, or set site.global.python.executable",
        ),
    ],
    ids=["mount", "no TensorFlow"],
)
def test_what_cannot_start_is_one_sentence(engine, submission, options, sentence):
    done = submission.create("app", "exit 0", *options)
    assert done.returncode in (65, 77)
    assert sentence in done.stderr
    assert engine.containers() == []


def test_an_application_without_an_engine(submission, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    done = submission.create("app", "exit 0")
    assert done.returncode == 53
    assert (
        "run mode docker needs a Docker engine: no engine answers at /no/such.sock" in done.stderr
    )


def test_yarns_own_runtime_needs_yarn(submission):
    done = submission.create("app", "exit 0", mode="yarn-docker")
    assert done.returncode == 53
    assert "the local engine has no run mode yarn-docker" in done.stderr


@pytest.mark.weekly
def test_who_is_slow_by_a_limit_of_its_control_group_is_waited_for(engine, tmp_path, tfapp_home):
    """Both make as many steps; one has a tenth of a processor for its own."""
    files, work = tmp_path / "files", tmp_path / "work"
    for folder in (files, work):
        folder.mkdir()
    write_digits(files)
    main = calls.ship(
        files, {"worker": {"kind": "function", "module": "digits", "function": "for_long"}}
    )
    options = {
        "site.global.user.scripts.entry": main.relative_to(files),
        "site.global.user.checkpoint.prefix": tmp_path / "checkpoints",
    }
    flags = [word for name, value in options.items() for word in ("--option", name, value)]
    line = CommandLine(work, tfapp_home)
    words = ("create", "app", "--appdef", PACKAGE, "--files", f"{files}/", "--component", "worker")
    line.ok(*words, 2, *flags, *in_docker(), "--detach", "--wait", LIMIT)

    def own() -> list[float]:
        instances = line.status("app")["status"]["instances"]
        return [one["metrics"][OWN_STEP] for one in instances if OWN_STEP in one["metrics"]]

    def waited_for() -> list[str]:
        return re.findall(
            r"^slowest +(\S+) is waited for", line.asks("status", "app"), re.MULTILINE
        )

    wait(lambda: len(own()) == 2, "both train", LIMIT)
    worker = engine.docker("ps", "--quiet", "--filter", "label=tfapp.instance=worker/1").strip()
    engine.docker("update", "--cpus", "0.1", worker)
    wait(lambda: waited_for() == ["worker/1"], lambda: line.asks("status", "app"), LIMIT)
    line.ok("stop", "app", "--force")
