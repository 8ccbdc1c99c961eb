"""The engine on a YARN in memory, whose masters speak the real protocol."""

from __future__ import annotations

import pytest

from tests.engines.applications import compiled, service
from tests.engines.yarn.file_system import FileSystem
from tests.engines.yarn.played_yarn import PlayedMaster, PlayedYarn
from tfapp.compiler.tags import TAG
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict, format_diagnostics
from tfapp.engines.yarn import engine as engine_module
from tfapp.engines.yarn import run as run_module
from tfapp.engines.yarn.engine import YarnEngine
from tfapp.errors import (
    BadStateError,
    ExistsError,
    InUseError,
    InvalidPackageError,
    NotFoundError,
    UnavailableError,
    UnknownApplicationError,
    UnreachableError,
)
from tfapp.skein_library import skein

STOPPED = Verdict("KILLED", 66, "Stopped on request.")


@pytest.fixture
def played(monkeypatch):
    played = PlayedYarn()
    monkeypatch.setattr("tfapp.engines.yarn.cluster.open_driver", played.open_driver)
    for module in (engine_module, run_module):
        monkeypatch.setattr(module, "WAIT_EVERY", 0.01)
    yield played
    played.close()


@pytest.fixture
def files(tmp_path):
    """A file system where applications share nothing: their files travel with them."""
    files = FileSystem(tmp_path)
    (tmp_path / "system").write_text("file:///")
    return files


@pytest.fixture
def engine(played, files, tmp_path):
    return YarnEngine(tmp_path / "home", files.environ, user="ann")


def small(name: str = "app"):
    made = compiled(name, w=service(instances=2))
    made.spec.tags.add(TAG)
    return made


def master_of(played: PlayedYarn, name: str = "app") -> PlayedMaster:
    return played.masters[[r.id for r in played.reports.values() if r.name == name][-1]]


def status(state: str, verdict: Verdict | None = None) -> ApplicationStatus:
    instance = InstanceStatus("w/0", "w", "worker", "RUNNING", "w_0", "n1")
    return ApplicationStatus("app", state, 1, 5.0, 6.0, (instance,), verdict)


def runs(engine: YarnEngine, played: PlayedYarn) -> PlayedMaster:
    """Creates an application that runs."""
    engine.create("app", small())
    master = master_of(played)
    master.publish(status("RUNNING"))
    return master


def test_it_waits_and_says_for_what(engine, played):
    played.waits = "[Sun Nov 22] waiting for AM container. Details : none"
    created = engine.create("app", small())
    assert (created.name, created.engine, created.run, created.live) == ("app", "yarn", 1, True)
    assert (created.tags, created.status.state) == (("t1", "t2"), "ACCEPTED")
    assert [i.instance for i in created.status.instances] == ["w/0", "w/1"]
    assert created.waits == "waiting for AM container."
    assert engine.find("app") == created
    assert engine.list() == (created,)
    with pytest.raises(UnreachableError, match="app has no master yet"):
        engine.connect("app")
    assert engine.stop("app", "enough").status.verdict.exit_code == 66


def test_what_the_coordinator_publishes_is_found(engine, played):
    runs(engine, played)
    found = engine.find("app")
    assert found.status == status("RUNNING")
    assert [(link.what, link.address) for link in found.links] == [
        ("page", played.reports[found.id].tracking_url),
        ("page", f"{played.reports[found.id].tracking_url}pages/application/"),
    ]


def test_a_name_is_taken_until_it_is_destroyed(engine, played):
    engine.create("app", small())
    for forbidden in (lambda: engine.create("app", small()), lambda: engine.check(small())):
        with pytest.raises(ExistsError):
            forbidden()
    for forbidden in (engine.start, engine.destroy):
        with pytest.raises(InUseError):
            forbidden("app")
    first = engine.stop("app", "enough", force=True)
    second = engine.start("app")
    assert (second.run, second.id != first.id) == (2, True)
    assert engine.find("app", 1) == first
    with pytest.raises(NotFoundError):
        engine.find("app", 3)
    engine.stop("app", "enough", force=True)
    engine.destroy("app")
    assert engine.list() == ()
    for method in (engine.find, engine.start, engine.destroy, engine.logs, engine.connect):
        with pytest.raises(UnknownApplicationError):
            method("app")
    assert engine.create("app", small()).run == 1


def test_a_damaged_copy_of_a_definition_is_as_none(engine, played):
    engine.create("app", small())
    definition = engine._home.run(engine.find("app").id).definition
    definition.write_text('{"nam')
    (listed,) = engine.list()
    assert (listed.name, listed.live) == ("app", True)
    engine.stop("app", "enough", force=True)
    with pytest.raises(BadStateError, match="what app is made of is known neither here"):
        engine.start("app")
    engine.destroy("app")
    assert engine.list() == ()


def test_another_home_cannot_start_what_it_does_not_know(engine, played, files, tmp_path):
    engine.create("app", small())
    engine.stop("app", "enough", force=True)
    other = YarnEngine(tmp_path / "other", files.environ, user="ann")
    with pytest.raises(BadStateError, match="what app is made of is known neither here"):
        other.start("app")


@pytest.mark.parametrize("text", ["AccessControlException: no", "rejected by placement rules"])
def test_a_queue_that_is_not_the_users(engine, played, text):
    played.refusal = skein.exceptions.DriverError(text)
    with pytest.raises(InvalidPackageError) as raised:
        engine.create("app", small())
    (problem,) = raised.value.problems
    assert problem.message == "queue 'default' takes no applications of ann"
    assert played.reports == {}


def test_what_cannot_be_kept_here_does_not_run(engine, played, monkeypatch):
    def write(*_):
        raise UnavailableError("the disk is full")

    monkeypatch.setattr(engine._register, "write", write)
    with pytest.raises(UnavailableError, match="the disk is full"):
        engine.create("app", small())
    assert played.killed == list(played.reports)


# ---- the stop, step by step ------------------------------------------------------------------
def test_its_coordinator_ends_it(engine, played):
    master = runs(engine, played)
    ended = format_diagnostics(status("KILLED", STOPPED))
    master.on_stop = lambda: master._end("KILLED", ended)
    stopped = engine.stop("app", "enough")
    assert (stopped.live, stopped.status.verdict) == (False, STOPPED)
    assert engine.stop("app", "again") == stopped


@pytest.mark.parametrize("force", [True, False])
def test_its_master_ends_it(engine, played, force):
    runs(engine, played)
    stopped = engine.stop("app", "enough", force=force, timeout=0.05)
    assert stopped.status.verdict == Verdict("KILLED", 66, "enough")


def test_yarn_kills_it(engine, played, monkeypatch):
    monkeypatch.setattr("tfapp.engines.client.SHUTDOWN_DEADLINE", 0.05)
    runs(engine, played).deaf = True
    stopped = engine.stop("app", "enough", timeout=0.05)
    assert stopped.status.verdict == Verdict(
        "KILLED", 66, "Stopped through YARN: Application killed by user."
    )


# ---- following -------------------------------------------------------------------------------
def test_it_is_followed_to_its_verdict_through_an_outage(engine, played):
    master = runs(engine, played)
    seen = []
    for application in engine.follow("app"):
        seen.append((application.status.state, application.waits))
        if len(seen) == 2:
            late = skein.exceptions.TimeoutError("late")
            master._end("KILLED", format_diagnostics(status("KILLED", STOPPED)))
            played.failures = [late, late, late]
    assert seen[0] == ("ACCEPTED", "")
    assert seen[1] == ("RUNNING", "")
    assert seen[-1] == ("KILLED", "")
    told = [waits for _, waits in seen if waits]
    assert told == ["YARN did not report within 10 s; tfapp goes on asking"]


def test_a_master_that_does_not_answer_is_told_from_one_that_has_ended(engine, played, monkeypatch):
    monkeypatch.setattr("tfapp.engines.client.DEADLINES", (0.1, 0.3))
    engine.create("app", small())
    master_of(played).stop(0)
    with pytest.raises(UnreachableError):
        engine.find("app")
    (listed,) = engine.list()
    assert (listed.live, listed.status.state) == (True, "ACCEPTED")
    played.end(listed.id, "FAILED", "FAILED", "AM Container exited with exit code 1, no reason")
    found = engine.find("app")
    assert (found.live, found.status.state) == (False, "FAILED")
    assert "It ended without a verdict: AM Container exited" in found.status.verdict.summary


def test_what_this_cluster_gives(engine, played):
    assert engine._capacity.largest_container("default") == {"memory": 8192, "vcores": 8}
