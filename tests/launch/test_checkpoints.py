import pytest

from tests.cli.played_engine import PlayedEngine, shell
from tfapp.errors import UsageError
from tfapp.launch import checkpoints


@pytest.fixture
def engine(tmp_path):
    return PlayedEngine(tmp_path / "played", [])


@pytest.mark.parametrize("folder", ["oss://bucket/ada/app", "/mnt/saved/app"])
def test_what_is_not_seen_from_here_stays(tmp_path, engine, folder):
    engine.sees_home = False
    caller = shell(tmp_path)
    checkpoints.prepare(folder, engine, caller, fresh=False)
    assert caller.err.text == ""
    with pytest.raises(UsageError, match="does not see the checkpoints in " + folder):
        checkpoints.prepare(folder, engine, caller, fresh=True)
    for delete in (False, True):
        said = checkpoints.settle(folder, engine, caller, delete)
        assert said.startswith(f"its files stay in {folder}")


def test_who_has_no_folder_has_nothing_to_move(tmp_path, engine):
    checkpoints.prepare("", engine, shell(tmp_path), fresh=True)
    assert checkpoints.settle("", engine, shell(tmp_path), delete=True) == ""


def test_what_is_moved_aside_twice_keeps_both(tmp_path, engine):
    folder = tmp_path / "app"
    for _ in range(3):
        folder.mkdir()
        (folder / "model").touch()
        checkpoints.prepare(str(folder), engine, shell(tmp_path), fresh=True)
    assert len(list(tmp_path.glob("app.before-*/model"))) == 3
