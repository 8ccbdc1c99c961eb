"""What a person who waits sees of a pull, by the commands that people use."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import pytest

from tests.docker.applications import tfapp
from tests.docker.engine import BASE
from tests.docker.instances import LIMIT, docker_mode, end_of_pulls, eventually
from tests.docker.registry import log_in, registry
from tests.gate import Gate, gate
from tfapp.contract.docker import Docker
from tfapp.script import ScriptError

MEBIBYTE = 1 << 20
NOISE = "tfapp-test/noise:1"


@pytest.fixture
def noise(engine, tmp_path) -> Iterator[str]:
    """The name, in a registry, of an image with a layer that the engine does not have."""
    layer = ("dd", "if=/dev/urandom", "of=/noise", "bs=1M", "count=20")
    engine.docker("run", "--name", "noise", "--network", "host", BASE, *layer)
    engine.docker("commit", "noise", NOISE)
    engine.docker("rm", "noise")
    with registry(engine, tmp_path / "registry", NOISE) as image:
        engine.docker("rmi", NOISE)
        yield image


@pytest.fixture
def slow(engine, noise, tmp_path, monkeypatch) -> Iterator[tuple[Gate, str]]:
    """What holds that image back, and its name there."""
    config = tmp_path / "registry" / "client"
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    host, port = re.match(r"(.*):(\d+)", noise.partition("/")[0]).groups()
    with gate(int(port), leak=5 * MEBIBYTE) as way:
        log_in(engine, config, way.port)
        way.shut()
        image = noise.replace(f"{host}:{port}", f"{host}:{way.port}")
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


def test_the_deadline_of_a_pull_says_how_far_it_was(slow, tmp_path):
    way, image = slow
    docker = Docker(image, pull_timeout=15)
    with pytest.raises(ScriptError) as caught, docker_mode(tmp_path / "place", docker):
        pass
    way.open()
    end_of_pulls()
    text, _, share = str(caught.value).rpartition(": ")
    assert text == f"image {image} was not there within 15 s (site.global.docker.pull.timeout)"
    assert re.fullmatch(r"1 of 2 layers, \d+ of 20 MiB", share)


def test_the_gang_deadline_says_that_an_image_is_still_pulled(slow, submission, monkeypatch):
    _, image = slow
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal, screen = os.openpty()
    followed = submission.follow(
        "app",
        "echo trained",
        *("--option", "site.global.docker.image", image),
        *("--option", "site.global.gang.timeout", "40"),
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
        "not all instances were ready 40 s after generation 1 began. Missing: worker/0 (its "
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
