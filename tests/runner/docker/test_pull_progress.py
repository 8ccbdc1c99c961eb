"""The progress of a pull, as the commands show it."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract_values import make_docker
from tests.gate import Gate, gate
from tests.runner.docker.applications import tfapp
from tests.runner.docker.engine import BASE
from tests.runner.docker.instances import LIMIT, container, end_of_pulls, eventually
from tests.runner.docker.registry import log_in, registry
from tfapp.runner.docker import pull
from tfapp.runner.docker.mode import DockerMode
from tfapp.script import ScriptError

MEBIBYTE = 1 << 20
NOISE = "tfapp-test/noise:1"


@pytest.fixture(scope="module")
def noise(session_docker_engine, tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The name, in a registry, of an image with a layer that the engine does not have, and the
    registry's folder."""
    engine = session_docker_engine
    folder = tmp_path_factory.mktemp("noise") / "registry"
    layer = ("dd", "if=/dev/urandom", "of=/noise", "bs=1M", "count=20")
    engine.docker("run", "--name", "noise", "--network", "host", BASE, *layer)
    engine.docker("commit", "noise", NOISE)
    engine.docker("rm", "noise")
    with registry(engine, folder, NOISE) as image:
        engine.docker("rmi", NOISE)
        yield image, folder


@pytest.fixture
def slow(engine, noise, monkeypatch) -> Iterator[tuple[Gate, str]]:
    """The gate that holds the image back, and the image's name there."""
    name, folder = noise
    config = folder / "client"
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    host, port = re.match(r"(.*):(\d+)", name.partition("/")[0]).groups()
    with gate(int(port), leak=5 * MEBIBYTE) as way:
        log_in(engine, config, way.port)
        way.shut()
        image = name.replace(f"{host}:{port}", f"{host}:{way.port}")
        yield way, image
        engine.docker("rmi", "--force", image)


def test_who_follows_sees_the_progress_and_no_more_of_it_once_it_is_over(slow, submission):
    way, image = slow
    followed = submission.follow(
        "app", "echo trained", "--option", "site.global.docker.image", image
    )
    words = re.compile(rf"pulling image {image}: 1 of 2 layers, [1-9]\d* of 20 MiB")
    eventually(lambda: words.search(status()), "the progress")
    way.open()
    output, errors = followed.communicate(timeout=LIMIT)
    assert (followed.returncode, output) == (0, "trained\n")
    # By its log alone: it is the instance whose log is shown.
    told = [line for line in errors.splitlines() if "pulling" in line]
    assert told[0] == f"tfapp: pulling image {image}"
    assert all(line.startswith("tfapp: ") for line in told)
    assert "pulling" not in status()


def test_the_deadline_of_a_pull_says_how_far_it_was(slow, tmp_path, monkeypatch):
    way, image = slow
    monkeypatch.setattr(pull, "TOLD_EVERY", 0.1)
    place = container(tmp_path / "place", make_docker(image, pull_timeout=600))
    share = re.compile(r"1 of 2 layers, \d+ of 20 MiB")
    over = lambda: 600.0 if share.search(mode.preparing) else 0.0  # noqa: E731
    mode = DockerMode(place, place.component.docker, lambda line: None, over)
    with contextlib.closing(mode), pytest.raises(ScriptError) as caught:
        mode.prepare()
    way.open()
    end_of_pulls()
    text, _, told = str(caught.value).rpartition(": ")
    assert text == f"image {image} was not there within 600 s (site.global.docker.pull.timeout)"
    assert share.fullmatch(told)


@pytest.mark.weekly
def test_the_gang_deadline_says_that_an_image_is_still_pulled(slow, submission, monkeypatch):
    _, image = slow
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal, screen = os.openpty()
    followed = submission.follow(
        "app",
        "echo trained",
        *("--option", "site.global.docker.image", image),
        *("--option", "site.global.gang.timeout", "30"),
        screen=screen,
    )
    os.close(screen)
    shown = _read(terminal)
    assert followed.communicate(timeout=LIMIT)[0] == ""
    assert followed.returncode == 67
    progress = rf"pulling image {image}: 1 of 2 layers, [1-9]\d* of 20 MiB"
    rows, verdict = shown.split("Timed out: ")
    assert re.search(f"1 REQUESTED: {progress}", rows), rows
    assert re.sub(progress, "PROGRESS", verdict) == (
        "not all instances were ready 30 s after generation 1 began. Missing: worker/0 (its "
        "container worker_0 on 127.0.0.1 is still PROGRESS). The limit is "
        "site.global.gang.timeout. It includes the pull of an image, which has a limit of its "
        "own, site.global.docker.pull.timeout (10 min)."
    )


def _read(terminal: int) -> str:
    """All that is written to a terminal until its other side is closed, in one line, without the
    sequences that move its cursor or colour it."""
    written = b""
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as file:
        while data := file.read(4096):
            written += data
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())
    return " ".join(text.split())


def status() -> str:
    return tfapp("status", "app").stdout
