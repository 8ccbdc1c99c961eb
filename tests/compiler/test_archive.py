"""Archives: equal bytes for equal files, on every Python; no path that leaves them."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.compiler.archive import Entry, pack

ENTRIES = (
    Entry("bin/run.sh", b"#!/bin/sh\n", executable=True),
    Entry("empty", b""),
    Entry("train.py", b"print('x')\n" * 100),
    Entry('\u00fcbung/\u6570 "1".txt', "\u6570".encode()),
)


def test_bytes_are_the_same_everywhere():
    """One number for Linux and macOS, for Python 3.9 to 3.13, for zlib and zlib-ng."""
    assert hashlib.sha256(pack(ENTRIES)).hexdigest() == (
        "2694a6b34d3a35f8e7fc4af2963439b7a769eddb7c1feb2753b4a1e7d050b9f3"
    )


def test_what_is_unpacked():
    with zipfile.ZipFile(io.BytesIO(pack(ENTRIES))) as archive:
        assert archive.testzip() is None
        unpacked = {
            info.filename: (archive.read(info), oct(info.external_attr >> 16))
            for info in archive.infolist()
        }
    assert unpacked == {
        "bin/run.sh": (b"#!/bin/sh\n", "0o100755"),
        "empty": (b"", "0o100644"),
        "train.py": (b"print('x')\n" * 100, "0o100644"),
        '\u00fcbung/\u6570 "1".txt': ("\u6570".encode(), "0o100644"),
    }


def test_nothing_to_pack_is_still_a_folder_when_unpacked():
    with zipfile.ZipFile(io.BytesIO(pack(()))) as archive:
        assert archive.namelist() == [".empty"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../x", "a//x", "a\\x", "./a", ""])
def test_paths_that_leave_the_archive(path):
    with pytest.raises(ValueError, match="path|sorted"):
        pack([Entry(path, b"")])


@pytest.mark.parametrize("paths", [("b", "a"), ("a", "a")])
def test_entries_are_sorted_and_unique(paths):
    with pytest.raises(ValueError, match="sorted and unique"):
        pack(Entry(path, b"") for path in paths)


@given(st.dictionaries(st.text("abc\u00e4 '$", min_size=1), st.binary(max_size=50), max_size=8))
def test_packing_twice_is_equal_and_loses_nothing(files):
    entries = [Entry(path, files[path]) for path in sorted(files)]
    data = pack(entries)
    assert data == pack(iter(entries))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if files]
        assert {name: archive.read(name) for name in names} == files
