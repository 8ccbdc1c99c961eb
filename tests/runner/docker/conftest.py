"""A real Docker engine for the tests of this folder."""

import json
from collections.abc import Iterator

import pytest

from tests.runner.docker.applications import Submission, tfapp
from tests.runner.docker.engine import Engine
from tests.runner.docker.instances import eventually


@pytest.fixture
def engine(docker_engine, monkeypatch) -> Engine:
    """The engine, named by this process's environment."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.host)
    return docker_engine


@pytest.fixture
def submission(engine, tmp_path) -> Iterator[Submission]:
    yield Submission(tmp_path)
    for row in json.loads(tfapp("list", "--format", "json").stdout)["applications"]:
        tfapp("stop", row["name"], "--force")
    eventually(lambda: engine.containers() == [], "the containers' end")
