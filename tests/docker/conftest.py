"""A real Docker engine for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.docker.engine import Engine


@pytest.fixture
def engine(docker_engine, monkeypatch) -> Engine:
    """The engine, named by this process's environment."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.host)
    return docker_engine
