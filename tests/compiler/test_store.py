"""The cache: whole files or none, for the owner alone, and what a bad disk gets."""

import errno
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys

import pytest

from tests import programs
from tests.compiler.packages import compile_with, package
from tfapp import disk
from tfapp.compiler.compile import ShippedFile
from tfapp.compiler.store import delete_files, keeping_files, load_private_key, store_files
from tfapp.errors import UnavailableError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folders_are_the_owners_alone(tmp_path):
    cache = tmp_path / "home" / "cache"
    files = compile_with(package(), cache=cache).files
    previous = os.umask(0o022)
    try:
        store_files(files)
    finally:
        os.umask(previous)
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == {
        file.path.name: file.data for file in files
    }
    assert [mode(path) for path in cache.iterdir()] == [0o600] * 5
    assert [mode(cache), mode(cache.parent)] == [0o700, 0o700]


def test_what_is_there_is_not_written_again(tmp_path):
    file = ShippedFile(tmp_path / "a.zip", b"data")
    store_files([file])
    before = file.path.stat()
    store_files([file])
    assert file.path.stat().st_ino == before.st_ino


@pytest.mark.parametrize("damaged", [b"", b"dat", b"DATA"])
def test_what_is_damaged_is_replaced(tmp_path, damaged):
    file = ShippedFile(tmp_path / "a.zip", b"data")
    file.path.write_bytes(damaged)
    file.path.chmod(0o600)
    store_files([file])
    assert file.path.read_bytes() == b"data"


def test_what_others_can_read_is_replaced(tmp_path):
    file = ShippedFile(tmp_path / "a.zip", b"data")
    file.path.write_bytes(b"data")
    file.path.chmod(0o644)
    store_files([file])
    assert mode(file.path) == 0o600


def store_often(path):
    for round_ in range(20):
        store_files([ShippedFile(path / f"{round_}.zip", b"%d" % round_ * 10_000)])


def test_several_writers_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=store_often, args=(tmp_path / "cache",), daemon=True)
        for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()} == {
        f"{round_}.zip": b"%d" % round_ * 10_000 for round_ in range(20)
    }


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UnavailableError) as caught:
        store_files([ShippedFile(tmp_path / "home" / "cache" / "a.zip", b"data")])
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path}/home/cache cannot be used: Not a directory",
        "Make it writable, or set TFAPP_HOME to a folder of your own.",
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk of {} is full"),
        (errno.EDQUOT, "the disk of {} is full"),
        (errno.EROFS, "{} cannot be used: Read-only file system"),
        (errno.EACCES, "{} cannot be used: Permission denied"),
    ],
)
def test_a_disk_that_refuses(tmp_path, monkeypatch, number, message):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(disk.os, "fsync", refuse)
    with pytest.raises(UnavailableError) as caught:
        store_files([ShippedFile(tmp_path / "a.zip", b"data")])
    assert caught.value.message == message.format(tmp_path)
    assert list(tmp_path.iterdir()) == []


FULL_DISK = """
import sys
from pathlib import Path
from tfapp.compiler.shipment import ShippedFile
from tfapp.compiler.store import store_files
from tfapp.errors import UnavailableError
disk = Path(sys.argv[1])
try:
    store_files([ShippedFile(disk / "cache" / "a.zip", bytes(1 << 20))])
except UnavailableError as error:
    print(error.message == f"the disk of {disk}/cache is full", list((disk / "cache").iterdir()))
"""


def test_a_disk_that_is_really_full(tmp_path):
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    if (
        unshare is None
        or subprocess.run([unshare, "-rm", "sh", "-c", mount], timeout=60).returncode
    ):
        pytest.skip("this machine lets no user mount a small disk")
    command = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    result = programs.run(unshare, "-rm", "sh", "-c", command, sys.executable, FULL_DISK)
    assert (result.stdout, result.stderr) == ("True []\n", "")


def test_the_private_key_is_made_once(tmp_path):
    cache = tmp_path / "home" / "cache"
    key = load_private_key(cache)
    assert len(key) == 32
    assert load_private_key(cache) == key
    assert [(path.name, mode(path)) for path in cache.iterdir()] == [("private.key", 0o600)]


def test_the_first_of_two_keys_is_kept(tmp_path, monkeypatch):
    def make_both(size):
        (tmp_path / "private.key").write_bytes(b"the other's")
        return bytes(size)

    monkeypatch.setattr(os, "urandom", make_both)
    assert load_private_key(tmp_path) == b"the other's"
    assert [path.name for path in tmp_path.iterdir()] == ["private.key"]


def test_files_are_deleted_that_nobody_uses(tmp_path):
    cache, outside = tmp_path / "cache", tmp_path / "outside"
    with keeping_files(cache):
        files = [ShippedFile(path, b"") for path in (cache / "a", cache / "b", outside)]
        store_files(files)
    delete_files(cache, ["a", "b", "gone", "outside"], lambda: ["b"])
    assert [file.path.exists() for file in files] == [False, True, True]


def test_nothing_is_deleted_while_somebody_stores_files(tmp_path):
    kept = ShippedFile(tmp_path / "cache" / "kept", b"")
    with keeping_files(tmp_path / "cache"), keeping_files(tmp_path / "cache"):
        store_files([kept])
        delete_files(tmp_path / "cache", ["kept"], tuple, timeout=0)
        assert kept.path.exists()
    delete_files(tmp_path / "cache", ["kept"], tuple)
    assert not kept.path.exists()


def test_without_a_cache_there_is_nothing_to_delete(tmp_path):
    delete_files(tmp_path / "cache", ["a"], tuple)
    assert not (tmp_path / "cache").exists()
