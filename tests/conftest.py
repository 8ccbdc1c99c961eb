from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.docker.engine import Engine, UnavailableError
from tests.left_behind import watched

# Machines that run these tests are shared: an example that is slow once says nothing. The same
# examples in every run, so that a failure is the change's own.
hypothesis.settings.register_profile(
    "tfapp",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tfapp")


@pytest.fixture(scope="session", autouse=True)
def nothing_left_of_the_session(tmp_path_factory):
    """Ends what its fixtures could not end."""
    with watched(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(autouse=True)
def tfapp_home(tmp_path_factory, monkeypatch):
    """A TFAPP_HOME of the test's own, for the processes that it starts too."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TFAPP_HOME", str(home))
    return home


def pytest_configure(config):
    config.addinivalue_line("markers", "docker: runs on a real Docker engine of the tests' own")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "docker_engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.docker)
    if hasattr(config, "workerinput"):  # one of several processes
        from tests.distribution import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from tests.distribution import Scheduling

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def session_docker_engine(tmp_path_factory) -> Iterator[Engine]:
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
def docker_engine(session_docker_engine) -> Iterator[Engine]:
    """A real Docker engine. A test leaves no container behind."""
    yield session_docker_engine
    left = session_docker_engine.containers()
    for id in left:
        session_docker_engine.docker("rm", "--force", id)
    assert left == []
