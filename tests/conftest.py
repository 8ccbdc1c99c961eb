import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

# Before gRPC loads, as tfapp.launch.caller does.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tests import parts
from tests.lacking import lacking
from tests.left_behind import watched
from tests.runner.docker.engine import Engine, UnavailableError
from tfapp import processes
from tfapp.standalone import keeper

# Machines that run these tests are shared: an example that is slow once says nothing. The same
# examples in every run, so that a failure is the change's own.
hypothesis.settings.register_profile(
    "tfapp",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tfapp")

# The tests start thousands of Pythons. Each of them would compile tfapp, and each of pytest's
# processes all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# nohup and many CI systems start the tests with SIGINT ignored. What the tests start would inherit
# that, and a Ctrl-C would do nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FEW_FILES = 50  # fixtures of the session keep some


# Runners and keepers kill all that their programs leave behind. In pytest's own process that would
# be what other tests' fixtures have started: a cluster, an engine, a browser.
def _no_descendants(*_: object) -> NoReturn:
    raise AssertionError("this would end what fixtures have started: call it in another process")


def _of_another(parent: int = 0, *more: Any) -> Any:
    return _left_behind(parent, *more) if parent else _no_descendants()


_left_behind, processes.left_behind = processes.left_behind, _of_another
keeper.alive_below = _no_descendants


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite what tests expect")


@pytest.fixture(scope="session", autouse=True)
def nothing_left_of_the_session(tmp_path_factory):
    """Ends what its fixtures could not end."""
    with watched(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(scope="module", autouse=True)
def files_are_closed():
    """A module leaves few files open: its process goes on with the next one."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    if len(os.listdir("/proc/self/fd")) > before + FEW_FILES:
        gc.collect()
        left = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert len(left) <= before + FEW_FILES, f"open files stay, such as {left[-5:]}"


@pytest.fixture(autouse=True)
def tfapp_home(tmp_path_factory, monkeypatch):
    """A TFAPP_HOME of the test's own, for the processes that it starts too."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TFAPP_HOME", str(home))
    return home


@pytest.fixture
def utc(monkeypatch):
    """Local times are UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """All that it makes lives as long as the session: no later search for garbage looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(config, items):
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        part = parts.part_of(item.nodeid, getattr(item, "fixturenames", ()), marks)
        item.user_properties.append(("part", part))
        if part != parts.REST or "slow" in marks:
            item.add_marker(pytest.mark.cluster)
    leave_out(config, items)
    if hasattr(config, "workerinput"):  # one of several processes
        from tests.distribution import rank

        items.sort(key=lambda item: rank(item.nodeid))


# Tests with one of these marks run where -m names it, or where one is named by itself.
BY_NAME = ("weekly", "kueue")


def leave_out(config, items):
    """Leaves those out that nobody has asked for."""
    if any("::" in word for word in config.args):
        return
    marks = [mark for mark in BY_NAME if mark not in config.option.markexpr]
    left = [item for item in items if any(map(item.get_closest_marker, marks))]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_runtest_setup(item):
    """Ends a session that takes too long, so that its summary names the slowest tests. TESTS_UNTIL
    in the environment: seconds since 1970."""
    until = os.environ.get("TESTS_UNTIL")
    if until and time.time() > float(until):
        item.session.shouldfail = "the tests take too long; the slowest are named above"
        pytest.fail("the tests have taken too long before this one")


def pytest_terminal_summary(terminalreporter):
    """The time of each part."""
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    lines = parts.table(
        (dict(report.user_properties)["part"], getattr(report, "worker_id", ""), report.duration)
        for report in reports
    )
    if lines:
        terminalreporter.section("time by part")
        for line in lines:
            terminalreporter.line(line)


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
        lacking(f"this machine has no Docker engine: {error}")
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
