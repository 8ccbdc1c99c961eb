import pytest

from tfapp.engines.machine.folders import Home


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "a" / "home")
    home.prepare()
    return home


def test_folders_are_private(home):
    for folder in (home.path, home.apps, home.gpus, home.path / "locks"):
        assert folder.stat().st_mode & 0o777 == 0o700
    home.prepare()


def test_ids_are_never_given_twice(home):
    given = [home.new_id(now, 7) for now in (5.0, 5.0, 4.0, 9.1)]
    assert given == [f"application_{ms}_0007" for ms in (5000, 5001, 5002, 9100)]


def test_locks_are_exclusive_and_come_back(home):
    with home.lock("app") as first, home.lock("app") as second, home.lock("other") as other:
        assert (first, second, other) == (True, False, True)
    with home.lock("app") as again:
        assert again


def test_runs_are_in_order_and_complete(home):
    app = home.app("app")
    for number in (10, 2, 1):
        app.run(number).path.mkdir(parents=True)
        if number != 1:
            app.run(number).config.write_text("{}")
    (app.path / "runs" / "junk").mkdir()
    (home.apps / ".app.deleted").mkdir()
    assert [run.number for run in app.runs()] == [2, 10]
    assert home.names() == ["app"]


def test_nothing_is_known_of_a_home_that_is_not_there(tmp_path):
    home = Home(tmp_path / "nowhere")
    assert (home.names(), home.app("app").runs()) == ([], [])
