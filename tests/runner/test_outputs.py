"""What is kept of a working folder: each row is a file, and what becomes of it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests import programs
from tfapp.contract.status import MOST_OUTPUTS, Outputs
from tfapp.runner import outputs
from tfapp.runner.container import OWN_FILES
from tfapp.runner.outputs import Limits, keep

ENOUGH = Limits(1 << 20, 100)


def folder(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def kept(work: Path, place: Path | str, limits: Limits = ENOUGH) -> Outputs:
    return keep(work, str(place), limits, lambda path: path)


def found(place: Path) -> dict[str, bytes]:
    paths = [path for path in place.rglob("*") if path.is_file()]
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in paths}


def test_what_a_program_has_written_is_kept_as_it_is(tmp_path):
    files = {"model.txt": b"weights", "a/b/c.bin": b"x" * 5000, "empty": b"", ".hidden": b"h"}
    work = folder(tmp_path / "work", files)
    (work / "script.sh").write_text("x")
    (work / "script.sh").chmod(0o750)
    told = kept(work, tmp_path / "kept" / "worker_0")
    place = tmp_path / "kept" / "worker_0"
    assert found(place) == {**files, "script.sh": b"x"}
    assert (place / "script.sh").stat().st_mode & 0o777 == 0o750
    assert (told.folder, told.count, told.size) == (str(place), 5, 5009)
    assert told.files == (
        *((".hidden", 1), ("a/b/c.bin", 5000), ("empty", 0)),
        *(("model.txt", 7), ("script.sh", 1)),
    )
    assert (told.left, told.left_count, told.why) == ((), 0, "")
    assert found(work) == {**files, "script.sh": b"x"}  # the next program may want it


def test_what_is_no_output_stays_out(tmp_path):
    work = folder(tmp_path / "work", {"__pycache__/m.pyc": b"", "own.txt": b"o", ".keras/k": b""})
    shipped = folder(tmp_path / "files", {"train.py": b"", "data/x.csv": b"1"})
    for name in OWN_FILES:
        (work / name).write_text("tfapp's")
    (work / "train.py").symlink_to(shipped / "train.py")
    (work / "data").symlink_to(shipped / "data")
    (work / "loop").symlink_to(".")
    (work / "gone").symlink_to("nothing")
    os.mkfifo(work / "pipe")
    kept(work, tmp_path / "kept")
    assert found(tmp_path / "kept") == {"own.txt": b"o"}


@pytest.mark.parametrize(
    ("limits", "stays", "named"),
    [
        (Limits(10, 100), {"b": b"12345", "c": b"1"}, ["a", "d"]),
        (Limits(1 << 20, 2), {"a": b"x" * 11, "b": b"12345"}, ["c", "d"]),
        (Limits(0, 100), {}, []),
        (Limits(100, 0), {}, []),
    ],
    ids=["bytes", "files", "no bytes", "no files"],
)
def test_limits(tmp_path, limits, stays, named):
    files = {"a": b"x" * 11, "b": b"12345", "c": b"1", "d": b"y" * 6}
    told = kept(folder(tmp_path / "work", files), tmp_path / "kept", limits)
    assert found(tmp_path / "kept") == stays
    assert [path for path, _ in told.left] == named
    assert told.left_count == len(named)
    assert ("site.global.outputs.max.mb" in told.why) == bool(named)


def test_a_message_is_never_large(tmp_path):
    work = folder(tmp_path / "work", {f"{i:04}-{'n' * 240}": b"" for i in range(300)})
    told = kept(work, tmp_path / "kept")
    assert (told.count, len(told.files), len(told.left)) == (100, MOST_OUTPUTS, MOST_OUTPUTS)
    assert told.left_count == 200
    assert len(told.text()) < 2500


def test_a_newer_program_replaces_what_an_older_one_left(tmp_path):
    work = folder(tmp_path / "work", {"a": b"1", "b": b"1"})
    kept(work, tmp_path / "kept")
    (work / "a").write_bytes(b"2")
    (work / "b").unlink()
    kept(work, tmp_path / "kept")
    assert found(tmp_path / "kept") == {"a": b"2", "b": b"1"}


def test_no_place_is_told(tmp_path):
    work = folder(tmp_path / "work", {"model.txt": b"weights"})
    told = kept(work, "")
    assert (told.folder, told.left) == ("", (("model.txt", 7),))
    assert told.text().startswith("does not keep model.txt (7 bytes): its working folder ends")
    assert "site.global.user.checkpoint.prefix" in told.why
    assert kept(folder(tmp_path / "tidy", {}), "").text() == ""


def test_a_place_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    work = folder(tmp_path / "work", {"a": b"1", "b": b"2"})
    (tmp_path / "kept").write_text("a file")
    told = kept(work, tmp_path / "kept")
    assert (told.count, told.left_count) == (0, 2)
    assert told.why == f"{tmp_path}/kept cannot be written: File exists"

    def full(source, target, follow_symlinks):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    told = kept(work, tmp_path / "other")
    assert told.why.endswith("No space left on device")
    assert found(tmp_path / "other") == {}


def test_a_place_that_does_not_answer_holds_nothing_up(tmp_path, monkeypatch):
    work = folder(tmp_path / "work", {"a": b"1"})
    monkeypatch.setattr(outputs, "LIMIT", 0.05)
    monkeypatch.setattr(shutil, "copy2", lambda *_, **__: __import__("time").sleep(3))
    told = kept(work, tmp_path / "kept")
    assert (told.count, told.left_count) == (0, 1)
    assert told.why == f"{tmp_path}/kept does not answer"


def test_secrets_in_names_are_struck_out(tmp_path):
    work = folder(tmp_path / "work", {"hunter22.txt": b"", "b": b""})
    told = keep(work, str(tmp_path / "kept"), ENOUGH, lambda path: path.replace("hunter22", "***"))
    assert [path for path, _ in told.files] == ["b", "***.txt"]


CACHES = """
import tensorflow as tf
data = tf.data.Dataset.range(1000)
list(data.cache("whole"))
half = iter(data.cache("half"))
next(half)
tf.train.Checkpoint(v=tf.Variable(1)).save("model")
for name in ("own.lockfile", "list.index", "whole"):
    open(name, "w").close()
import os
os._exit(0)
"""


@pytest.mark.trains
def test_a_cache_of_tf_data_is_no_output(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    programs.printed("-c", CACHES, cwd=work)
    assert {"whole.index", "half_0.lockfile"} < {one.name for one in work.iterdir()}
    kept(work, tmp_path / "kept")
    model = {"checkpoint", "model-1.data-00000-of-00001", "model-1.index"}
    assert {*found(tmp_path / "kept")} == {*model, "own.lockfile", "list.index", "whole"}
