from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from tfapp.engines.local.layout import (
    Home,
    delete_tree,
    locked,
    read_json,
    write_atomically,
    write_json,
    writing,
)
from tfapp.errors import UnavailableError


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


def test_a_lock_dies_with_its_holder(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tfapp.engines.local.layout import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with locked(tmp_path / "lock") as held:
            assert not held
        holder.kill()
    with locked(tmp_path / "lock") as held:
        assert held


def test_files_are_private_and_whole(tmp_path):
    path = tmp_path / "f.json"
    assert read_json(path) is None
    write_json(path, {"a": [1, "\u00e9"]})
    assert read_json(path) == {"a": [1, "\u00e9"]}
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError):
        write_atomically(path, "text")
    assert read_json(path) == {"a": [1, "\u00e9"]}
    assert os.listdir(tmp_path) == ["f.json"]


def test_bytes_that_are_no_text_come_back(tmp_path):
    value = {"LANG": os.fsdecode(b"caf\xe9"), "PATH": "/caf\u00e9"}
    write_json(tmp_path / "file", value)
    assert read_json(tmp_path / "file") == value
    assert "/caf\u00e9".encode() in (tmp_path / "file").read_bytes()


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


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "there is no space left on its disk"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "its file system is read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_why_it_cannot_be_written(tmp_path, number, reason):
    with pytest.raises(UnavailableError) as error, writing(tmp_path):
        raise OSError(number, os.strerror(number))
    assert str(error.value) == f"{tmp_path} cannot be written: {reason}"


def test_deleting_what_cannot_be_entered(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("")
    tree = tmp_path / "tree"
    (tree / "locked").mkdir(parents=True)
    (tree / "locked" / "file").write_text("")
    (tree / "link").symlink_to(outside)
    (tree / "locked").chmod(0)
    delete_tree(tree)
    delete_tree(tree)
    assert os.listdir(tmp_path) == ["outside"]
    assert os.listdir(outside) == ["file"]
