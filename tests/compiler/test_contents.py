"""The content of a package's archives, with and without files of the user's own."""

import hashlib
import io
import os
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.packages import MemorySource, compile_with, package
from tfapp.compiler import contents
from tfapp.compiler.contents import ArchiveEntry, pack
from tfapp.errors import InvalidPackageError, NotFoundError, UnavailableError

SOURCE = MemorySource(
    {
        "files/data/words.txt": b"words",
        "files/train.py": b"package's",
        "metainfo.yaml": b"",
        "scripts/tensorflow.py": b"class T: ...",
    },
    executables=("files/train.py",),
)
ENTRIES = (
    ArchiveEntry("bin/run.sh", b"#!/bin/sh\n", executable=True),
    ArchiveEntry("empty", b""),
    ArchiveEntry("train.py", b"print('x')\n" * 100),
    ArchiveEntry('\u00fcbung/\u6570 "1".txt', "\u6570".encode()),
)


def unpacked(file):
    with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
        return {
            info.filename: (archive.read(info), bool(info.external_attr >> 16 & 0o100))
            for info in archive.infolist()
        }


def test_the_package_and_its_files_go_different_ways():
    runtime, shipped, files, *_ = compile_with(package(source=SOURCE)).files
    assert unpacked(runtime) == {"__main__.py": (b"print('runtime')\n", False)}
    assert unpacked(shipped) == {
        "metainfo.yaml": (b"", False),
        "scripts/tensorflow.py": (b"class T: ...", False),
    }
    assert unpacked(files) == {
        "data/words.txt": (b"words", False),
        "train.py": (b"package's", True),
    }


def test_the_users_files_win(tmp_path):
    train = tmp_path / "my train.py"
    train.write_bytes(b"user's")
    tool = tmp_path / "tool"
    tool.write_bytes(b"#!/bin/sh")
    tool.chmod(0o755)
    built = package(source=SOURCE, user_files={"train.py": train, "bin/tool": tool})
    _, _, files, *_ = compile_with(built).files
    assert unpacked(files) == {
        "bin/tool": (b"#!/bin/sh", True),
        "data/words.txt": (b"words", False),
        "train.py": (b"user's", False),
    }


def test_a_file_where_the_package_has_a_folder(tmp_path):
    data = tmp_path / "data"
    data.touch()
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(package(source=SOURCE, user_files={"data": data}))
    assert [str(problem) for problem in caught.value.problems] == [
        "app: error: with --files: data is a file and a folder at once [unsafe-path]"
    ]


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(NotFoundError, match=r"gone\.py does not exist"):
        compile_with(package(user_files={"train.py": tmp_path / "gone.py"}))


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnavailableError, match="pipe is not a regular file"):
        compile_with(package(user_files={"train.py": tmp_path / "pipe"}))


def test_too_much_to_ship_is_refused_before_it_is_read(tmp_path):
    small, large = tmp_path / "small.bin", tmp_path / "large.bin"
    small.write_bytes(b"x")
    large.touch()
    os.truncate(large, contents.MAX_USER_FILES)
    with pytest.raises(UnavailableError) as caught:
        compile_with(package(user_files={"a": small, "b": large}))
    assert caught.value.message == (
        "the files to ship are 1024.0 MiB together, the limit is 1024.0 MiB; the largest is "
        f"{large} (1024.0 MiB)"
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
        pack([ArchiveEntry(path, b"")])


@pytest.mark.parametrize("paths", [("b", "a"), ("a", "a")])
def test_entries_are_sorted_and_unique(paths):
    with pytest.raises(ValueError, match="sorted and unique"):
        pack(ArchiveEntry(path, b"") for path in paths)


@given(st.dictionaries(st.text("abc\u00e4 '$", min_size=1), st.binary(max_size=50), max_size=8))
def test_packing_twice_is_equal_and_loses_nothing(files):
    entries = [ArchiveEntry(path, files[path]) for path in sorted(files)]
    data = pack(entries)
    assert data == pack(iter(entries))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if files]
        assert {name: archive.read(name) for name in names} == files
