"""The contract of every engine, run against those that need no cluster: the local one, and a third
that is one folder and one line (tests/engines/isolated). test_played_contract.py runs what needs no
containers on clusters in memory. tests/clusters/yarn/test_contract.py runs it on a YARN cluster,
where an application takes seconds to begin: few of them are made."""

import dataclasses
import sys
import threading

import pytest
import skein

from tests.contract_values import make_limits
from tests.engines.applications import (
    DEADLINE,
    FOREVER,
    compiled,
    ended,
    eventually,
    lasting,
    local_engine,
    returned,
    returning,
    runner,
    service,
    serving,
)
from tfapp.contract.encoding import encode
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict, format_diagnostics
from tfapp.errors import ExistsError, InUseError, NotFoundError, UnknownApplicationError

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


@pytest.fixture(params=["local_one", "isolated_engine"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def local_one(home):
    with local_engine(home) as engine:
        yield engine


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
    assert lasting(engine.find("app")) == lasting(created)
    assert [lasting(application) for application in engine.list()] == [lasting(created)]
    for forbidden in (engine.start, engine.destroy):
        with pytest.raises(InUseError):
            forbidden("app")
    assert engine.find("app").live


def test_follow_sees_every_state_and_ends_with_the_verdict(engine, graceful):
    engine.create("app", graceful)
    seen = []
    for application in engine.follow("app"):
        seen.append((application.status.state, application.live))
        if application.status.state == "RUNNING":
            found = engine.find("app")
            assert (found.live, found.status) == (True, status("RUNNING"))
            stopping = threading.Thread(target=engine.stop, args=("app", "enough"), daemon=True)
            stopping.start()
    stopping.join(DEADLINE)
    assert [s for s in seen if s[0] != "ACCEPTED"] == [("RUNNING", True), ("KILLED", False)]
    assert engine.find("app").status.verdict == Verdict("KILLED", 66, "Stopped on request.")


def test_stop_with_grace_twice_at_once(engine, graceful, monkeypatch):
    """It is waited for as long as the application gives."""
    monkeypatch.setattr("tfapp.engines.base.STOP_MARGIN", -1000.0)
    job = dataclasses.replace(graceful.job, limits=make_limits(stop_grace=1000.0 + DEADLINE))
    engine.create("app", dataclasses.replace(graceful, job=job))
    serving(engine)
    found = []
    stops = [
        threading.Thread(target=lambda: found.append(engine.stop("app", "x")), daemon=True)
        for _ in range(2)
    ]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join(DEADLINE)
    stopped = engine.stop("app", "again")
    assert found == [stopped, stopped]
    assert not stopped.live
    assert stopped.status.verdict == Verdict("KILLED", 66, "Stopped on request.")


def test_stop_waits_no_longer_than_the_application_gives(engine, monkeypatch):
    monkeypatch.setattr("tfapp.engines.base.STOP_MARGIN", -1000.0)
    deaf = compiled(master=FOREVER, w=service())
    job = dataclasses.replace(deaf.job, limits=make_limits(stop_grace=1000.0))
    engine.create("app", dataclasses.replace(deaf, job=job))
    serving(engine)
    assert engine.stop("app", "enough").status.verdict == Verdict("KILLED", 66, "enough")


@pytest.mark.parametrize("force", [True, False])
def test_stop_of_one_that_does_not_listen(engine, force):
    engine.create("app", compiled(master=FOREVER, w=service("trap '' TERM; sleep 1000000")))
    serving(engine)
    stopped = engine.stop("app", "enough", force=force, timeout=0.2)
    assert (stopped.live, stopped.status.state) == (False, "KILLED")
    assert stopped.status.verdict == Verdict("KILLED", 66, "enough")


def test_logs_outlive_the_application(engine):
    generation = "$((2 - ${SKEIN_CONTAINER_ID##*_}))"
    tell = "echo $SKEIN_CONTAINER_ID"
    engine.create(
        "app",
        compiled(
            master="echo coordinating; exec sleep 1000000",
            b=service(runner(returning(tell, "b"), "b")),
            # Two containers of one instance: the newer one has seen fewer generations.
            c=service(runner(returning(tell, "$SKEIN_CONTAINER_ID", generation), "c", 0), 2),
        ),
    )
    expected = [("b/0", "b_0\n"), ("c/0", "c_0\n"), ("c/0", "c_1\n")]
    logs_stay(engine, expected, {"b/0": "b", "c/0": "c_0"})


def logs_of_fixed_containers_stay(engine):
    """The same where a container is always of the instance that it was made for."""
    tell = "echo $SKEIN_CONTAINER_ID"
    engine.create(
        "app",
        compiled(
            master="echo coordinating; exec sleep 1000000",
            b=service(returning(tell, "b")),
            c=service(returning(tell, "$SKEIN_CONTAINER_ID"), 2),
        ),
    )
    expected = [("b/0", "b_0\n"), ("c/0", "c_0\n"), ("c/1", "c_1\n")]
    logs_stay(engine, expected, {"b/0": "b", "c/0": "c_0", "c/1": "c_1"})


def logs_stay(engine, expected, values):
    """The first three logs of "app", and its programs' values, are there, also after its end."""

    def texts():
        return [(log.instance, log.path.read_text()) for log in engine.logs("app")]

    eventually(lambda: texts()[:3] == expected)
    eventually(lambda: ("coordinator", "coordinating\n") in texts())
    eventually(lambda: returned(engine) == values)
    engine.stop("app", "enough", force=True)
    assert texts()[:3] == expected
    assert [instance for instance, _ in texts()[3:]] == ["coordinator", "master"]
    assert returned(engine) == values


def test_runs_are_numbered_and_kept(engine):
    script = returning("echo run $SKEIN_APPLICATION_ID", "$SKEIN_APPLICATION_ID")
    for run in two_runs(engine, compiled(w=service(runner(script, "w")))):
        logs = engine.logs("app", run.run)
        assert len(logs) == 2, logs
        assert logs[0].path.read_text() == f"run {run.id}\n"
        assert returned(engine, run.run) == {"w/0": run.id}


def two_runs(engine, compiled):
    """The runs of "app", which have ended, one after the other."""
    engine.create("app", compiled)
    first = ended(engine)
    second = engine.start("app")
    assert (second.run, second.live, second.tags) == (2, True, first.tags)
    assert second.id != first.id
    second = ended(engine)
    assert engine.find("app") == second
    assert list(engine.follow("app")) == [second]
    assert engine.find("app", 1) == first
    with pytest.raises(NotFoundError):
        engine.find("app", 3)
    return first, second


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
    for taken in (engine.create, lambda _, compiled: engine.check(compiled)):
        with pytest.raises(ExistsError):
            taken("app", small)
    ended(engine)
    with pytest.raises(ExistsError):
        engine.create("app", small)
    engine.destroy("app")
    assert engine.list() == ()
    with pytest.raises(UnknownApplicationError):
        engine.find("app")
    assert engine.create("app", small).run == 1


def test_what_only_a_destroyed_application_was_made_of_is_deleted(engine, home, tmp_path):
    cache = home / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    both, values, other, outside = (
        *(cache / name for name in ("both.zip", "values.private.json", "other.zip")),
        tmp_path / "outside.zip",
    )

    def made_of(name, *paths):
        for path in paths:
            path.write_text("")
        files = {path.name: skein.File(f"file://{path}", type="FILE") for path in paths}
        return compiled(name, w=service("exit 0", files=files))

    engine.create("app", made_of("app", both, values, outside))
    engine.create("next", made_of("next", both, other))
    ended(engine)
    ended(engine, "next")
    engine.destroy("app")
    assert [path.exists() for path in (both, values, other, outside)] == [True, False, True, True]
    engine.destroy("next")
    assert [path.exists() for path in (both, values, other, outside)] == [False, False, False, True]


def test_all_masters_are_asked_at_the_same_time(engine, monkeypatch):
    for name in ("a", "b"):
        engine.create(name, compiled(name, master=FOREVER, w=service()))
    both = threading.Barrier(2, timeout=DEADLINE)
    look = engine._look
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_look", lambda *run, **how: (both.wait(), look(*run, **how))[1])
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
    assert [lasting(application) for application in engine.list()] == [lasting(winner)]


METHODS = ["find", "follow", "logs", "returned", "connect", "start", "destroy"]


@pytest.mark.parametrize("method", METHODS)
def test_unknown_name(engine, method):
    with pytest.raises(UnknownApplicationError):
        result = getattr(engine, method)("nobody")
        list(result)
    with pytest.raises(UnknownApplicationError):
        engine.stop("nobody", "")
    assert engine.list() == ()
