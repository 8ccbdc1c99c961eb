"""The files of an application after a crash, or written by a newer tfapp."""

import json

import pytest

from tests.engines.applications import compiled, ended, environ, run_folder, service
from tfapp.engines import open_engine
from tfapp.engines.machine import folders
from tfapp.engines.refusals import DamagedError
from tfapp.errors import BadStateError, UnavailableError, UnknownApplicationError

SMALL = compiled(w=service("exit 0"))


@pytest.fixture
def two(engine):
    """An engine with an application that is going to be damaged, and another."""
    for name in ("app", "other"):
        engine.create(name, compiled(name, w=service("exit 0")))
        ended(engine, name)
    return engine


@pytest.mark.parametrize("text", ["", '{"name": "ap', "[]", '{"from": "the future"}'])
@pytest.mark.parametrize("file", ["config", "state", "ending"])
def test_a_damaged_application_is_one_row_and_can_be_destroyed(two, file, text):
    run = run_folder(two)
    if file == "state":
        run.ending.unlink()
    getattr(run, file).write_text(text)
    rows = {a.name: (a.status.state, a.live, a.waits) for a in two.list()}
    assert rows["other"] == ("SUCCEEDED", False, "")
    state, live, waits = rows["app"]
    assert (state, live) == ("DAMAGED", False)
    assert str(getattr(run, file)) in waits
    with pytest.raises(DamagedError, match="cannot be read"):
        two.find("app")
    assert "w/0" in [log.instance for log in two.logs("app")]
    two.destroy("app")
    assert [a.name for a in two.list()] == ["other"]
    with pytest.raises(UnknownApplicationError):
        two.find("app")


def test_what_a_killed_destroy_has_left_is_deleted_by_the_next(two, monkeypatch):
    monkeypatch.setattr(folders, "delete_tree", lambda path: None)  # killed before
    two.destroy("app")
    assert [a.name for a in two.list()] == ["other"]
    assert len(list(two._home.apps.iterdir())) == 2
    monkeypatch.undo()
    two.destroy("other")
    assert list(two._home.apps.iterdir()) == []


def test_a_damaged_definition_keeps_what_others_may_be_made_of(two, tmp_path):
    two._home.app("app").definition.write_text("")
    with pytest.raises(DamagedError):
        two.start("app")
    assert {a.name: a.status.state for a in two.list()} == dict.fromkeys(
        ("app", "other"), "SUCCEEDED"
    )
    two.destroy("other")
    two.destroy("app")
    assert two.list() == ()


def test_what_another_command_is_starting_can_be_seen_and_no_more(two):
    run = run_folder(two)
    for path in (run.ending, run.state):
        path.unlink()
    with two._home.lock("app"):
        found = two.find("app")
        assert (found.live, found.status.state) == (True, "ACCEPTED")
        assert found in two.list()
        for ask in (
            lambda: list(two.follow("app")),
            lambda: two.connect("app"),
            *(lambda force=force: two.stop("app", "", force) for force in (False, True)),
        ):
            with pytest.raises(BadStateError, match="app is just being started"):
                ask()
    assert two.find("app").status.state == "FAILED"


@pytest.mark.parametrize("file", ["config", "state", "ending"])
def test_more_than_this_version_knows_is_no_damage(two, file):
    path = getattr(run_folder(two), file)
    before = two.find("app")
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))
    assert two.find("app") == before


def test_a_home_that_is_no_folder_is_not_an_empty_one(tmp_path):
    (tmp_path / "home").write_text("")
    engine = open_engine("local", tmp_path / "home", environ())
    for look in (engine.list, lambda: engine.find("app")):
        with pytest.raises(UnavailableError, match="home cannot be read: Not a directory"):
            look()
