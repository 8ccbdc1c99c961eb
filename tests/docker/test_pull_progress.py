"""What a person who waits sees of a pull, by the commands that people use."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docker.applications import tfapp
from tests.docker.engine import BASE
from tests.docker.instances import LIMIT, eventually
from tests.docker.registry import log_in, registry
from tests.docker.slow_registry import SlowRegistry, slowly

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
def slow(engine, noise, tmp_path, monkeypatch) -> Iterator[tuple[SlowRegistry, str]]:
    """What holds that image back, and its name there."""
    config = tmp_path / "registry" / "client"
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    host, port = re.match(r"(.*):(\d+)", noise.partition("/")[0]).groups()
    with slowly(int(port), 5 * MEBIBYTE) as registry:
        log_in(engine, config, registry.port)
        image = noise.replace(f"{host}:{port}", f"{host}:{registry.port}")
        yield registry, image
        engine.docker("rmi", "--force", image)


def test_who_follows_sees_the_progress_and_no_more_of_it_once_it_is_over(submission, slow):
    registry, image = slow
    followed = submission.follow(
        "app", "echo trained", "--option", "site.global.docker.image", image
    )
    words = re.compile(rf"pulling image {image}: 1 of 2 layers, [1-9]\d* of 20 MiB")
    table = eventually(lambda: words.search(status()), "the progress")
    assert table is not None
    registry.let_go.set()
    output, errors = followed.communicate(timeout=LIMIT)
    assert (followed.returncode, output) == (0, "trained\n")
    # Once by its log: it is the instance whose log is shown.
    assert [line for line in errors.splitlines() if "pulling" in line] == [
        f"tfapp: pulling image {image}"
    ]
    assert "pulling" not in status()


def status() -> str:
    return tfapp("status", "app").stdout
