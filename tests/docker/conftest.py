"""A real Docker engine for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.engine import Engine, UnavailableError

HERE = Path(__file__).parent


def pytest_configure(config):
    config.addinivalue_line("markers", "docker: runs on a real Docker engine of the tests' own")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session")
def session_engine(tmp_path_factory) -> Iterator[Engine]:
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    engine = Engine(tmp_path_factory.mktemp("docker") / "engine", cache)
    try:
        engine.start()
        yield engine
    except UnavailableError as error:
        reason = f"this machine has no Docker engine: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    finally:
        engine.stop()


@pytest.fixture
def engine(session_engine, monkeypatch) -> Iterator[Engine]:
    """The engine, named by this process's environment. A test leaves no container behind."""
    monkeypatch.setenv("DOCKER_HOST", session_engine.host)
    yield session_engine
    left = session_engine.containers()
    for id in left:
        session_engine.docker("rm", "--force", id)
    assert left == []
