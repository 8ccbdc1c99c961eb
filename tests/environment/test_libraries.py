import os
import stat
import sys
import tarfile

import pytest

from tests.lacking import needs_storage
from tfapp.environment import build, libraries, unpacked
from tfapp.errors import UnavailableError


@needs_storage
def test_those_of_this_interpreter_are_packed_once(tmp_path):
    version = build.version_here()
    place = libraries.place(version, build.HERE, tmp_path)
    notes: list[str] = []
    libraries.make(place, version, build.HERE, sys.executable, os.environ, notes.append)
    with tarfile.open(place) as archive:
        names = archive.getnames()
    assert {"fsspec/__init__.py", "obstore/__init__.py", "hdfs_native/__init__.py"} < {*names}
    assert notes == []  # pip is not asked
    before = place.stat()
    libraries.make(place, version, build.HERE, sys.executable, os.environ, notes.append)
    assert place.stat().st_ino == before.st_ino
    assert stat.S_ISREG(before.st_mode)


@needs_storage
@pytest.mark.parametrize("end", [b"", b"\x00" * 9])
def test_an_archive_that_was_cut_off_is_made_anew(tmp_path, end):
    version = build.version_here()
    place = libraries.place(version, build.HERE, tmp_path)
    libraries.make(place, version, build.HERE, sys.executable, os.environ, lambda text: None)
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2] + end)
    libraries.make(place, version, build.HERE, sys.executable, os.environ, lambda text: None)
    with tarfile.open(place) as archive:
        assert len(archive.getnames()) > 1


@needs_storage
def test_they_are_unpacked_once(tmp_path):
    """A folder that a program uses is not put away."""
    version = build.version_here()
    place = libraries.place(version, build.HERE, tmp_path)
    libraries.make(place, version, build.HERE, sys.executable, os.environ, lambda text: None)
    folder = unpacked.unpack(place, tmp_path)
    before = folder.stat().st_ino
    assert unpacked.unpack(place, tmp_path).stat().st_ino == before
    assert unpacked.is_unpacked(folder)


def test_for_other_nodes_pip_is_asked_and_says_why_not(tmp_path):
    place = libraries.place("3.11", "linux-s390x", tmp_path)
    assert place != libraries.place("3.12", "linux-s390x", tmp_path)
    environ = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}
    with pytest.raises(UnavailableError, match=r"pip cannot fetch .* for Python 3.11 on linux-s39"):
        libraries.make(place, "3.11", "linux-s390x", sys.executable, environ, lambda text: None)
    assert list(tmp_path.iterdir()) == []


def test_an_old_python_has_none(tmp_path):
    with pytest.raises(UnavailableError, match="needs Python 3.10 or newer, and the programs have"):
        libraries.place("3.9", build.HERE, tmp_path)
