"""How an image gets to the machine, and what is said when it does not."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract_values import make_docker
from tests.runner.docker.engine import BASE
from tests.runner.docker.instances import container, docker_mode, end_of_pulls
from tests.runner.docker.registry import PASSWORD, USER, registry
from tfapp.contract.job import Docker
from tfapp.runner.docker import pull
from tfapp.runner.docker.engine import EngineError
from tfapp.runner.docker.pull import PullProgress, login_of
from tfapp.runner.preparation import Preparation
from tfapp.runner.supervisor import Supervisor
from tfapp.script import Program, ScriptError


def refusal(tmp_path, docker: Docker, **changes) -> str:
    with pytest.raises(ScriptError) as caught, docker_mode(tmp_path, docker, **changes):
        pass
    return str(caught.value)


def test_an_image_of_a_registry_that_asks_for_a_login(engine, tmp_path, capfd):
    said: list[str] = []
    with registry(engine, tmp_path / "registry") as image:
        docker = make_docker(image, pull_timeout=600, credential="LOGIN")
        env = {"LOGIN": f"{USER}:{PASSWORD}"}
        with docker_mode(tmp_path / "a", docker, said.append, env=env) as (mode, context):
            code = "import os; print('LOGIN' in os.environ)"
            program = mode.start(Program(("python3", "-c", code)), context)
            assert program.wait().code == 0
            assert program.last_lines() == "False"
        assert said[0] == f"pulling image {image}"
        assert said[-1] == f"image {image} is there"
        assert PASSWORD not in "".join(said)

        wrong = {"LOGIN": f"{USER}:guessed"}
        always = make_docker(image, pull="always", credential="LOGIN")
        text = refusal(tmp_path / "b", always, env=wrong)
        assert text.startswith(f"image {image} cannot be pulled: ")
        assert "guessed" not in text


def test_what_is_there_is_not_pulled(engine, tmp_path):
    said: list[str] = []
    with docker_mode(tmp_path, make_docker(BASE), said.append):
        pass
    assert said == []


def test_never_means_never(engine, tmp_path):
    assert refusal(tmp_path, make_docker("no/such:1", pull="never")) == (
        "image no/such:1 is not on this machine, and site.global.docker.pull is never; "
        "`docker pull no/such:1` here, or set it to missing"
    )


def test_a_registry_that_is_not_there(engine, tmp_path):
    with socket.socket() as unserved:
        unserved.bind(("127.0.0.1", 0))
        image = f"127.0.0.1:{unserved.getsockname()[1]}/mine:1"
        text = refusal(tmp_path, make_docker(image))
    assert text.startswith(f"image {image} cannot be pulled: the Docker engine cannot pull image")
    assert "connection refused" in text


def test_a_registry_that_never_answers_has_a_deadline(engine, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pull, "TOLD_EVERY", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        image = f"127.0.0.1:{silent.getsockname()[1]}/mine:1"
        text = refusal(tmp_path, make_docker(image, pull_timeout=2))
    assert text == f"image {image} was not there within 2 s (site.global.docker.pull.timeout)"
    # Now and then, though the engine has nothing to report.
    said = capsys.readouterr().out.splitlines()
    assert len(said) > 1
    assert set(said) == {f"pulling image {image}"}
    end_of_pulls()


def test_progress_is_that_of_the_newest_report():
    progress = PullProgress("mine:1")
    told = [progress.words]
    progress.begin()
    mebibyte = 1 << 20
    size = {"total": 100 * mebibyte}

    def reports():
        for report in (
            {"id": "latest", "status": "Pulling from mine"},
            {"id": "a", "status": "Downloading", "progressDetail": {"current": mebibyte, **size}},
            {"id": "b", "status": "Downloading", "progressDetail": {"current": mebibyte, **size}},
            {"id": "a", "status": "Pull complete", "progressDetail": {}},
            {"error": "no space left"},
        ):
            told.append(progress.words)
            yield report

    assert progress.follow(reports()) == "no space left"
    assert told == [
        "",
        "pulling image mine:1",
        "pulling image mine:1",
        "pulling image mine:1: 0 of 1 layers, 1 of 100 MiB",
        "pulling image mine:1: 0 of 2 layers, 2 of 200 MiB",
        "pulling image mine:1: 1 of 2 layers, 101 of 200 MiB",
    ]


def test_progress_is_told_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    place = container(tmp_path, make_docker("any"), redact=("hush-hush",))
    mode: Any = SimpleNamespace(preparing="pulling image hush-hush/mine:1")
    supervisor = Supervisor(place, Preparation(place, mode), mode, print)
    assert supervisor.preparing == "pulling image [secret]/mine:1"


def test_a_login_has_a_shape():
    assert login_of("me:a:b") == {"username": "me", "password": "a:b"}
    with pytest.raises(EngineError) as caught:
        login_of("hush-hush")
    assert "hush" not in str(caught.value)
