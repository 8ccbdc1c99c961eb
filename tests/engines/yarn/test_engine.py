"""The engine on a YARN in memory, whose masters speak the real protocol."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from tests.engines.applications import compiled, service
from tests.engines.yarn.file_system import FileSystem
from tests.engines.yarn.played_yarn import PlayedMaster, PlayedYarn
from tests.waiting import wait
from tfapp.contract.names import KEY_STATUS
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict, format_diagnostics
from tfapp.engines.client import no_answer
from tfapp.engines.definition import TAG
from tfapp.engines.yarn import zones
from tfapp.engines.yarn.cluster import YarnCluster
from tfapp.engines.yarn.engine import YarnEngine
from tfapp.engines.yarn.run import YarnRun
from tfapp.errors import (
    BadStateError,
    ExistsError,
    InvalidPackageError,
    UnavailableError,
    UnreachableError,
)
from tfapp.skein_library import skein

STOPPED = Verdict("KILLED", 66, "Stopped on request.")


@pytest.fixture
def played(monkeypatch):
    played = PlayedYarn()
    monkeypatch.setattr("tfapp.engines.yarn.cluster.open_driver", played.open_driver)
    monkeypatch.setattr(YarnRun, "wait_every", 0.01)
    monkeypatch.setattr("tfapp.engines.known.OUTAGE_EVERY", 0.01)
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


def test_a_folder_is_asked_for_once(played, files, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(zones, "why_closed", lambda environ, url: asked.append(url) or "locked")
    engine = YarnEngine(tmp_path / "home", files.environ, user="ann")
    assert [engine.closed("hdfs://a/b"), engine.closed("hdfs://a/b")] == ["locked"] * 2
    assert asked == ["hdfs://a/b"]


def test_what_the_coordinator_publishes_is_found(engine, played):
    runs(engine, played)
    found = engine.find("app")
    assert found.status == status("RUNNING")
    assert [(link.what, link.address) for link in found.links] == [
        ("page", played.reports[found.id].tracking_url),
        ("page", f"{played.reports[found.id].tracking_url}pages/application/"),
    ]


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


FULL = "Queue root.ml already has 0 applications, cannot accept submission of application"
JAVA = "org.apache.hadoop.security.AccessControlException"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{JAVA}: {FULL}: application_1_1", f"{FULL}: application_1_1"),
        (f"x.YarnException:\n{JAVA}: {FULL}\n\tat java.X", FULL),
        ("AccessControlException: User ann has no right", "User ann has no right"),
        ("Application rejected by placement rules.", "Application rejected by placement rules."),
    ],
)
def test_a_queue_that_refuses_is_told_in_yarns_own_words(engine, played, text, reason):
    played.refusal = skein.exceptions.DriverError(text)
    with pytest.raises(InvalidPackageError) as raised:
        engine.create("app", small())
    (problem,) = raised.value.problems
    assert problem.message == f"queue 'default' does not take the application of ann: {reason}"
    assert played.reports == {}


def test_what_cannot_be_kept_here_does_not_run(engine, played, monkeypatch):
    def write(*_):
        raise UnavailableError("the disk is full")

    monkeypatch.setattr(engine._register, "write", write)
    with pytest.raises(UnavailableError, match="the disk is full"):
        engine.create("app", small())
    assert played.killed == list(played.reports)


# ---- a ResourceManager that starts again without recovery ------------------------------------
def test_what_yarn_has_forgotten_is_known_from_the_record(engine, played, files):
    runs(engine, played)
    before = engine.find("app")
    staging = files.base / "there" / "user" / "ann" / ".skein" / before.id
    staging.mkdir(parents=True)
    played.restart()
    found = engine.find("app")
    assert (found.id, found.live, found.run) == (before.id, False, 1)
    assert found.status.state == "FAILED"
    assert [i.instance for i in found.status.instances] == ["w/0", "w/1"]
    assert found.status.verdict.summary == (
        f"It ended without a verdict: the ResourceManager does not know {before.id} any more, "
        "since it was restarted without recovery, or keeps no more of the ended applications. How "
        "it ended was not seen from here. `tfapp start app --engine yarn` runs it again."
    )
    assert not staging.exists()
    assert engine.stop("app", "enough") == found
    assert engine.list() == (found,)
    with pytest.raises(UnavailableError, match=f"YARN has no logs of {before.id}"):
        engine.logs("app")
    with pytest.raises(ExistsError):
        engine.create("app", small())
    started = engine.start("app")
    assert (started.run, started.live, started.id != found.id) == (2, True, True)
    assert engine.find("app", 1) == found
    engine.stop("app", "enough", force=True)
    played.restart()
    assert engine.find("app").status.verdict.exit_code == 66  # seen when it was stopped
    engine.destroy("app")
    assert engine.list() == ()
    assert [*engine._home.path.glob("applications/*/skein.pem")] == []
    assert engine.create("app", small()).run == 1


def test_what_is_forgotten_while_it_is_followed_ends(engine, played):
    runs(engine, played)
    seen = []
    for application in engine.follow("app"):
        seen.append(application)
        if application.status.state == "RUNNING":
            played.restart()
    assert (seen[-1].live, seen[-1].status.state, seen[-1].status.generation) == (
        False,
        "FAILED",
        1,
    )


def test_what_is_forgotten_while_its_end_is_waited_for_has_ended(engine, played):
    runs(engine, played)
    run = engine._run("app")
    assert not run.wait_for_end(0)
    played.restart()
    assert run.wait_for_end(0)
    assert run.application().status.state == "FAILED"


def test_the_record_of_another_cluster_is_none_of_this_one(engine, played, files, tmp_path):
    runs(engine, played)
    played.restart()
    manager = "<name>yarn.resourcemanager.hostname</name><value>other</value>"
    (tmp_path / "yarn-site.xml").write_text(
        f"<configuration><property>{manager}</property></configuration>"
    )
    environ = {**files.environ, "HADOOP_CONF_DIR": str(tmp_path)}
    other = YarnEngine(tmp_path / "home", environ, user="ann")
    assert (other.list(), len(engine.list())) == ((), 1)


# ---- a ResourceManager that does not answer ---------------------------------------------------
LATE = skein.exceptions.TimeoutError("late")
OUTAGE = "YARN did not list applications within 10 s"


def test_what_its_master_says_is_told_while_yarn_does_not_answer(engine, played, files, tmp_path):
    master = runs(engine, played)
    before = engine.find("app")
    master.publish(dataclasses.replace(status("RUNNING"), generation=2))
    played.failures = [LATE] * 9
    found = engine.find("app")
    assert (found.id, found.live, found.run, found.status.generation) == (before.id, True, 1, 2)
    assert found.waits == f"{OUTAGE}; this is what the application's master says"
    for ask in (engine.list, lambda: engine.start("app"), lambda: engine.destroy("app")):
        with pytest.raises(UnavailableError, match=OUTAGE):
            ask()
    other = YarnEngine(tmp_path / "other", files.environ, user="ann")  # has looked at nothing
    with pytest.raises(UnavailableError, match=OUTAGE):
        other.find("app")
    played.failures = []
    assert engine.find("app").waits == ""


def test_how_it_ended_is_told_while_yarn_does_not_answer(engine, played):
    runs(engine, played)
    engine.stop("app", "enough", force=True)
    ended = engine.find("app")
    played.failures = [LATE] * 9
    assert engine.find("app") == ended
    assert not ended.live


def test_neither_yarn_nor_the_master_answers(engine, played, monkeypatch):
    monkeypatch.setattr("tfapp.engines.client.DEADLINES", (0.1, 0.3))
    runs(engine, played)
    engine.find("app")
    master_of(played).stop(0)
    played.failures = [LATE] * 9
    with pytest.raises(UnavailableError, match=OUTAGE):
        engine.find("app")
    assert len(played.failures) == 8  # asked once


# ---- the stop, step by step ------------------------------------------------------------------
def test_yarn_kills_it(engine, played, monkeypatch):
    monkeypatch.setattr("tfapp.engines.client.SHUTDOWN_DEADLINE", 0.05)
    runs(engine, played).deaf = True
    stopped = engine.stop("app", "enough", timeout=0.05)
    assert stopped.status.verdict == Verdict("KILLED", 66, "enough")
    assert engine.find("app").status.verdict == stopped.status.verdict


@pytest.mark.parametrize("force", [False, True])
def test_what_a_lost_master_has_recorded_is_known_after_the_stop(engine, played, files, force):
    runs(engine, played)
    id = engine.find("app").id
    recorded = dataclasses.replace(status("RUNNING"), generation=4, restarts=2, losses=1)
    files.record(id, recorded)
    played.lose(id)
    stopped = engine.stop("app", "enough", force).status
    assert (stopped.generation, stopped.restarts, stopped.losses) == (4, 2, 1)
    assert stopped.verdict == Verdict("KILLED", 66, "enough")
    assert engine.find("app").status == stopped


def test_what_the_last_master_has_recorded_is_known(engine, played, files):
    """A verdict that was decided is final."""
    runs(engine, played)
    id = engine.find("app").id
    files.record(id, dataclasses.replace(status("STOPPING", STOPPED), restarts=2))
    played.end(id, "FAILED", "FAILED", f"Application {id} failed 2 times due to")
    found = engine.find("app").status
    assert (found.restarts, found.verdict) == (2, STOPPED)


def test_what_is_asked_waits_for_the_next_master(engine, played, files, monkeypatch):
    runs(engine, played)
    report = played.reports[engine.find("app").id]
    host, port = report.host, report.port
    files.record(report.id, status("RUNNING"))
    report.state, report.host, report.port = "ACCEPTED", "N/A", -1
    read = YarnRun.read

    def back(self):
        report.state, report.host, report.port = "RUNNING", host, port
        read(self)

    monkeypatch.setattr(YarnRun, "read", back)
    with engine.connect("app") as connection:
        assert connection.get(KEY_STATUS) is not None


def test_who_sees_the_kill_first_gives_the_reason_of_who_stopped_it(
    engine, played, files, tmp_path, monkeypatch
):
    """A `create` that waits and a `stop` are two processes; the first of them keeps the end."""
    engine.create("app", small())
    waits = YarnEngine(tmp_path / "home", files.environ, user="ann")
    seen = []
    kill = YarnCluster.kill

    def killed(self, application):
        kill(self, application)
        monkeypatch.setattr(YarnCluster, "kill", kill)
        seen.append(waits.find("app").status.verdict)

    monkeypatch.setattr(YarnCluster, "kill", killed)
    stopped = engine.stop("app", "enough", timeout=0.05)
    assert seen[0] == stopped.status.verdict == Verdict("KILLED", 66, "enough")


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


def test_logs_are_copied_until_nobody_has_the_engine(engine, played, files, tmp_path):
    def copying():
        return [thread for thread in threading.enumerate() if thread.name == "tfapp-logs"]

    runs(engine, played)
    another = YarnEngine(tmp_path / "home", files.environ, user="ann")
    another.logs("app")
    assert len(copying()) == 1
    del another
    wait(lambda: not copying(), "logs are still copied", 60)


def test_a_master_that_does_not_answer_has_said_something_before(engine, played, monkeypatch):
    monkeypatch.setattr("tfapp.engines.client.DEADLINES", (0.1, 0.3))
    master = runs(engine, played)
    before = engine.find("app")
    master.stop(0)
    found = engine.find("app")
    assert (found.status.state, found.waits) == ("RUNNING", no_answer(before.status))
    assert dataclasses.replace(found, waits="") == before
    played.end(found.id, "FAILED", "FAILED", "AM Container exited with exit code 1, no reason")
    assert engine.find("app").status.state == "FAILED"


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
