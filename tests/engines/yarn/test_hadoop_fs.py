"""The results of commands of Hadoop's file system client."""

import pytest

from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.hadoop_fs import HdfsDone
from tfapp.errors import UnavailableError


@pytest.fixture
def client(tmp_path):
    """Makes the environment of a machine whose Java runs `script`."""
    (tmp_path / "yarn-site.xml").touch()

    def make(script: str) -> dict[str, str]:
        for name, text in (("java", script), ("yarn", f"echo {tmp_path}")):
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    return make


def test_how_it_is_called(client, tmp_path):
    done = hadoop_fs.run(client('echo "$@"; pwd'), ["-ls", "a b"], folder=tmp_path)
    words, folder = done.out.decode().splitlines()
    assert (done.well, done.complaint, folder) == (True, "", str(tmp_path))
    assert "org.apache.hadoop.fs.FsShell -D" in words
    assert words.endswith("-Dfs.permissions.umask-mode=077 -ls a b")


@pytest.mark.parametrize(
    ("said", "complaint", "absent", "cut_off"),
    [
        ("ls: `x': No such file or directory", "ls: `x': No such file or directory", True, False),
        (
            "WARN util.NativeCodeLoader: noise\nls: Call From a to b failed on connection "
            "exception: refused",
            "ls: Call From a to b failed on connection exception: refused",
            False,
            True,
        ),
        ("-ls: Unknown command", "-ls: Unknown command", False, False),
        # Of several, the one that hinders.
        ("ls: `a': File exists\nls: safe mode", "ls: safe mode", False, False),
        ("java.lang.Error: nothing of the command's", "", False, False),
    ],
)
def test_what_it_complains_of(client, tmp_path, said, complaint, absent, cut_off):
    (tmp_path / "said").write_text(said)
    done = hadoop_fs.run(client(f"cat {tmp_path}/said >&2; exit 1"), ["-ls", "x"])
    assert done == HdfsDone(False, b"", complaint)
    assert (done.absent, done.cut_off) == (absent, cut_off)


def test_it_is_not_waited_for_for_ever(client):
    done = hadoop_fs.run(client("exec sleep 60"), ["-ls", "x"], limit=0.2)
    assert (done.well, done.complaint, done.cut_off) == (False, "no answer within 0.2 s", True)


def test_without_hadoop(tmp_path):
    with pytest.raises(UnavailableError, match="java is not on PATH"):
        hadoop_fs.run({"PATH": str(tmp_path)}, ["-ls", "x"])
