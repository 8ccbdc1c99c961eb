"""What every engine does, run against the engine that needs no cluster. The YARN engine keeps the
same promises to the same words in tests/yarn, on a cluster of its own: what `yarn` on PATH leads
to is somebody's."""

from __future__ import annotations

import dataclasses
import sys
import threading

import pytest
import skein

from tests.engines.applications import (
    DEADLINE,
    FOREVER,
    compiled,
    ended,
    environ,
    eventually,
    service,
)
from tfapp.contract.diagnostics import format_diagnostics
from tfapp.contract.encoding import encode
from tfapp.contract.keys import KEY_STATUS
from tfapp.contract.limits import Limits
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.contract.verdict import Verdict
from tfapp.engines import open_engine
from tfapp.errors import (
    ExistsError,
    InUseError,
    NotFoundError,
    UnavailableError,
    UnknownApplicationError,
    UsageError,
)

# A coordinator that publishes what stands in `status.json` and ends with `diagnostics`, once the
# key tfapp.report.stop is there; "now" makes it end at once.
COORDINATOR = """
import pathlib, sys, skein
app = skein.ApplicationClient.from_current()
wanted = app.kv.events(key="tfapp.report.stop")
app.kv["tfapp.status"] = pathlib.Path(sys.argv[1], "status.json").read_bytes()
if not app.kv.exists("tfapp.report.stop"):
    wanted.get()
app.shutdown("KILLED", pathlib.Path(sys.argv[1], "diagnostics").read_text())
"""


@pytest.fixture
def engine(tmp_path):
    engine = open_engine("local", tmp_path / "home", environ())
    yield engine
    for application in engine.list():
        engine.stop(application.name, "the test is over", force=True)


def status(state, verdict=None, name="app"):
    instance = InstanceStatus("w/0", "w", "worker", "RUNNING", "w_0", "127.0.0.1")
    return ApplicationStatus(name, state, 1, 5.0, 6.0, (instance,), verdict)


@pytest.fixture
def graceful(tmp_path, request):
    """An application with a coordinator that ends it when it is asked to."""
    verdict = Verdict("KILLED", 66, "Stopped on request.")
    (tmp_path / "status.json").write_bytes(encode(status("RUNNING")))
    (tmp_path / "diagnostics").write_text(format_diagnostics(status("KILLED", verdict)))
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR)
    command = f"exec {sys.executable} {script} {tmp_path}"
    return compiled(master=command, w=service())


def test_preparing_makes_nothing(engine):
    with engine.preparing("app"):
        assert engine.list() == ()
    with pytest.raises(ZeroDivisionError), engine.preparing("app"):
        raise ZeroDivisionError
    with pytest.raises(UnknownApplicationError):
        engine.find("app")
    with engine.preparing("app"):
        engine.create("app", compiled(master=FOREVER, w=service()))
        with pytest.raises(ExistsError), engine.preparing("app"):
            engine.create("app", compiled(w=service()))
    assert engine.find("app").live


def test_create_and_find(engine):
    created = engine.create("app", compiled(master=FOREVER, w=service(instances=2)))
    assert (created.name, created.engine, created.run) == ("app", engine.name, 1)
    assert created.live
    assert created.tags == ("t1", "t2")
    assert created.status.state == "ACCEPTED"
    assert [i.instance for i in created.status.instances] == ["w/0", "w/1"]
    assert engine.find("app") == created
    assert engine.list() == (created,)


def test_the_published_status_is_found(engine, graceful):
    engine.create("app", graceful)
    found = eventually(lambda: (a := engine.find("app")).status.state == "RUNNING" and a)
    assert found.status == status("RUNNING")
    assert found.live


def test_follow_sees_every_state_and_ends_with_the_verdict(engine, graceful):
    engine.create("app", graceful)
    seen = []
    for application in engine.follow("app"):
        seen.append((application.status.state, application.live))
        if application.status.state == "RUNNING":
            stopping = threading.Thread(target=engine.stop, args=("app", "enough"), daemon=True)
            stopping.start()
    stopping.join(DEADLINE)
    assert [s for s in seen if s[0] != "ACCEPTED"] == [("RUNNING", True), ("KILLED", False)]
    assert engine.find("app").status.verdict == Verdict("KILLED", 66, "Stopped on request.")


def test_follow_after_the_end(engine):
    engine.create("app", compiled(w=service("exit 0")))
    last = ended(engine)
    assert list(engine.follow("app")) == [last]


def test_stop_with_grace(engine, graceful):
    engine.create("app", graceful)
    stopped = engine.stop("app", "enough", timeout=DEADLINE)
    assert not stopped.live
    assert stopped.status.verdict == Verdict("KILLED", 66, "Stopped on request.")
    assert engine.stop("app", "again") == stopped


@pytest.mark.parametrize(
    ("grace", "summary"), [(1000.0 + DEADLINE, "Stopped on request."), (1000.0, "enough")]
)
def test_stop_waits_for_as_long_as_the_application_gives(
    engine, graceful, monkeypatch, grace, summary
):
    monkeypatch.setattr("tfapp.engines.base.STOP_MARGIN", -1000.0)
    job = dataclasses.replace(graceful.job, limits=Limits(stop_grace=grace))
    engine.create("app", dataclasses.replace(graceful, job=job))
    assert engine.stop("app", "enough").status.verdict == Verdict("KILLED", 66, summary)


@pytest.mark.parametrize("force", [True, False])
def test_stop_of_one_that_does_not_listen(engine, force):
    engine.create("app", compiled(master=FOREVER, w=service("trap '' TERM; sleep 1000000")))
    stopped = engine.stop("app", "enough", force=force, timeout=0.2)
    assert (stopped.live, stopped.status.state) == (False, "KILLED")
    assert stopped.status.verdict == Verdict("KILLED", 66, "enough")


def test_two_stops_at_once(engine, graceful):
    engine.create("app", graceful)
    found = []
    stops = [
        threading.Thread(target=lambda: found.append(engine.stop("app", "x")), daemon=True)
        for _ in range(2)
    ]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join(DEADLINE)
    assert [a.status.state for a in found] == ["KILLED", "KILLED"]


def test_logs_outlive_the_application(engine):
    engine.create(
        "app",
        compiled(master="echo coordinating; sleep 1000000", b=service("echo $SKEIN_CONTAINER_ID")),
    )

    def texts():
        return {log.instance: log.path.read_text() for log in engine.logs("app")}

    eventually(lambda: texts().get("b/0") == "b_0\n")
    eventually(lambda: texts().get("coordinator") == "coordinating\n")
    engine.stop("app", "enough", force=True)
    assert [log.instance for log in engine.logs("app")] == ["b/0", "coordinator", "master"]
    assert texts()["b/0"] == "b_0\n"


def test_runs_are_numbered_and_kept(engine):
    first = engine.create("app", compiled(w=service("echo run $SKEIN_APPLICATION_ID")))
    first = ended(engine)
    second = engine.start("app")
    assert (second.run, second.live, second.tags) == (2, True, first.tags)
    assert second.id != first.id
    second = ended(engine)
    assert engine.find("app") == second
    assert engine.find("app", 1) == first
    for run in (first, second):
        (log, _) = engine.logs("app", run.run)
        assert log.path.read_text() == f"run {run.id}\n"
    with pytest.raises(NotFoundError):
        engine.find("app", 3)


def test_list_is_newest_first(engine):
    for name in ("b", "a", "c"):
        engine.create(name, compiled(name, w=service("exit 0")))
    assert [a.name for a in engine.list()] == ["c", "a", "b"]
    ended(engine, "b")
    engine.start("b")
    assert [a.name for a in engine.list()] == ["b", "c", "a"]


def test_names_are_taken_until_destroyed(engine):
    small = compiled(w=service("exit 0"))
    engine.create("app", small)
    with pytest.raises(ExistsError):
        engine.create("app", small)
    ended(engine)
    with pytest.raises(ExistsError):
        engine.create("app", small)
    engine.destroy("app")
    assert engine.list() == ()
    with pytest.raises(UnknownApplicationError):
        engine.find("app")
    assert engine.create("app", small).run == 1


def test_what_only_a_destroyed_application_was_made_of_is_deleted(engine, tmp_path):
    cache = tmp_path / "home" / "cache"
    cache.mkdir(parents=True)
    both, values, other, outside = (
        *(cache / name for name in ("both.zip", "values.private.json", "other.zip")),
        tmp_path / "outside.zip",
    )

    def made_of(*paths):
        for path in paths:
            path.write_text("")
        files = {path.name: skein.File(f"file://{path}", type="FILE") for path in paths}
        return compiled(w=service("exit 0", files=files))

    engine.create("app", made_of(both, values, outside))
    engine.create("next", made_of(both, other))
    ended(engine)
    ended(engine, "next")
    engine.destroy("app")
    assert [path.exists() for path in (both, values, other, outside)] == [True, False, True, True]
    engine.destroy("next")
    assert [path.exists() for path in (both, values, other, outside)] == [False, False, False, True]


def test_all_masters_are_asked_at_the_same_time(engine, monkeypatch):
    for name in ("a", "b"):
        engine.create(name, compiled(master=FOREVER, w=service()))
    both = threading.Barrier(2, timeout=DEADLINE)
    look = engine._look
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_look", lambda run: (both.wait(), look(run))[1])
        assert [application.name for application in engine.list()] == ["b", "a"]


def test_of_many_that_create_one_wins(engine):
    results = []

    def create():
        try:
            results.append(engine.create("app", compiled(master=FOREVER, w=service())))
        except ExistsError:
            results.append(None)

    threads = [threading.Thread(target=create, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    (winner,) = filter(None, results)
    assert len(results) == 4
    assert engine.list() == (winner,)


def test_not_while_it_runs(engine):
    engine.create("app", compiled(w=service()))
    for forbidden in (engine.start, engine.destroy):
        with pytest.raises(InUseError):
            forbidden("app")
    assert engine.find("app").live


@pytest.mark.parametrize("method", ["find", "follow", "logs", "start", "destroy"])
def test_unknown_name(engine, method):
    with pytest.raises(UnknownApplicationError):
        result = getattr(engine, method)("nobody")
        list(result)
    with pytest.raises(UnknownApplicationError):
        engine.stop("nobody", "")
    assert engine.list() == ()


def test_unknown_engine(tmp_path):
    with pytest.raises(UsageError, match="there is no engine 'moon'"):
        open_engine("moon", tmp_path, {})


def test_the_key_is_the_contract():
    assert KEY_STATUS in COORDINATOR


def test_a_home_that_is_no_folder_is_not_an_empty_one(tmp_path):
    (tmp_path / "home").write_text("")
    engine = open_engine("local", tmp_path / "home", environ())
    for look in (engine.list, lambda: engine.find("app")):
        with pytest.raises(UnavailableError, match="home cannot be read: Not a directory"):
            look()
