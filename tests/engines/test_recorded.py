"""The files of an application after a crash, or written by a newer tfapp."""

from __future__ import annotations

import json

import pytest

from tests.engines.applications import compiled, ended, environ, run_folder, service
from tfapp.engines import open_engine
from tfapp.engines.refusals import DamagedError
from tfapp.errors import UnavailableError, UnknownApplicationError

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
