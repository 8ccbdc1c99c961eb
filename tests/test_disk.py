import errno
import os
import subprocess
import sys

import pytest

from tfapp import disk
from tfapp.disk import delete_tree, locked, read_json, write_atomically, write_json, writing
from tfapp.errors import UnavailableError


def test_a_lock_dies_with_its_holder(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tfapp.disk import locked\n"
        "with locked(Path(sys.argv[1]), 0.0): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with locked(tmp_path / "lock", 0.0) as held:
            assert not held
        holder.kill()
    with locked(tmp_path / "lock", 0.0) as held:
        assert held


def test_files_are_private_and_whole(tmp_path):
    path = tmp_path / "f.json"
    with pytest.raises(FileNotFoundError):
        read_json(path)
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


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "run.json", []
    monkeypatch.setattr(disk.os, "fsync", lambda descriptor: seen.append(path.exists()))
    disk.write_json(path, {"a": 1}, durable=True)
    assert seen[:1] == [False]
    assert disk.read_json(path) == {"a": 1}
    disk.write_json(tmp_path / "other.json", {}, durable=False)
    assert len(seen) == 1


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def flock(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(disk.fcntl, "flock", flock)
    for lock in (disk.locked(tmp_path / "lock", 0.0), disk.partial_folder(tmp_path / "cache")):
        with pytest.raises(UnavailableError, match="cannot be locked: No locks available"), lock:
            pass
