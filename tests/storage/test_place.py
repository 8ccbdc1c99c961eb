"""Folders of files that tfapp keeps: on this machine, and on fsspec's own files in memory. S3, HDFS
and Kubernetes: the tests of a history there."""

import os

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tfapp.errors import UnavailableError
from tfapp.storage.place import place_at


@pytest.fixture(params=["path", "file", "memory"])
def place(request, tmp_path):
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    where = {
        "path": str(tmp_path / "a" / "kept"),
        "file": f"file://{tmp_path}/a/kept",
        "memory": "memory://base/kept",
    }
    return place_at(where[request.param], {"TFAPP_STORAGE_SCHEMES": "memory"})


def test_files_come_and_go(place):
    assert list(place.names()) == []
    assert place.read("one", "a.txt", 9) is None
    place.write("one", "a.txt", b"first")
    place.write("one", "a.txt", b"second")
    place.write("two", "b.txt", b"")
    assert sorted(place.names()) == ["one", "two"]
    assert (place.read("one", "a.txt", 6), place.read("two", "b.txt", 6)) == (b"second", b"")
    assert place.read("one", "b.txt", 6) is None
    place.remove("one")
    place.remove("one")
    assert list(place.names()) == ["two"]


def test_a_file_that_is_too_large_is_not_read(place):
    place.write("one", "a.txt", b"12345")
    with pytest.raises(UnavailableError, match="has more than 4 bytes"):
        place.read("one", "a.txt", 4)


def test_what_cannot_be_had_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    place = place_at(str(tmp_path / "file"))
    for call in (place.names, lambda: place.write("one", "a", b""), lambda: place.remove("one")):
        with pytest.raises(UnavailableError, match="Not a directory"):
            call()
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(UnavailableError, match="/proc/none/one/a: No such file or directory"):
        place_at("/proc/none").write("one", "a", b"")
    with pytest.raises(UnavailableError, match="tfapp opens no oss://"):
        place_at("oss://bucket/a", {})
