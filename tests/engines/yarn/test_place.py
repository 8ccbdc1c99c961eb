"""The shared place of files on a cluster, with a pretended `hadoop fs` on a folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tfapp.engines.yarn.layout import Home
from tfapp.engines.yarn.place import Place
from tfapp.errors import UnavailableError

URL = "hdfs://namenode:9000/user/ann/.tfapp/cache"

# `java ... FsShell -Dumask COMMAND WORDS`: a file system of its own below "there".
JAVA = f"""#!{sys.executable}
import os, pathlib, shutil, sys
base = pathlib.Path(BASE)
given = sys.argv[sys.argv.index("org.apache.hadoop.fs.FsShell") + 1:]
command, *words = (word for word in given if not word.startswith("-D"))
assert "-Dfs.permissions.umask-mode=077" in given
with open(base / "calls", "a") as calls:
    print(command, *words, file=calls)
def there(url):
    return base / "there" / url.partition("//")[2]
if (base / "down").exists():
    sys.exit(command[1:] + ": Call From here to there:1 failed on connection exception: refused")
if (base / "broken").exists():
    sys.exit(command[1:] + ": Name node is in safe mode.")
if command == "-df":
    print("Filesystem  Size  Used  Available  Use%")
    print((base / "system").read_text(), "1 2 3 4%")
elif command == "-mkdir":
    there(words[1]).mkdir(parents=True, exist_ok=True)
elif command == "-ls":
    for path in there(words[1]).iterdir():
        print(words[1] + path.name)
elif command == "-put":
    *names, target = words
    for name in names:
        if (there(target) / name).exists():
            print(f"put: `{{target}}{{name}}': File exists", file=sys.stderr)
            code = 1
        else:
            shutil.copy(name, there(target) / name)
    sys.exit(locals().get("code", 0))
"""


class Cluster:
    def __init__(self, base: Path):
        self.base = base
        conf, binaries = base / "conf", base / "bin"
        for folder in (conf, binaries, base / "there"):
            folder.mkdir(parents=True)
        (conf / "yarn-site.xml").touch()
        (base / "system").write_text("hdfs://namenode:9000")
        self._program(binaries / "yarn", f"#!/bin/sh\necho {conf}\n")
        self._program(binaries / "java", JAVA.replace("(BASE)", f"({str(base)!r})"))
        self.environ = {"PATH": f"{binaries}:/usr/bin:/bin"}
        self.folder = base / "there" / URL.partition("//")[2]

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def place(self, home: str = "home") -> Place:
        return Place(Home(self.base / home), self.environ, "ann")

    def calls(self) -> list[str]:
        """The commands since the last look."""
        path = self.base / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return found


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path / "a cluster")


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "some file#1"
    path.write_text("content")
    return path


def test_what_has_not_changed_costs_nothing(cluster, archive):
    place = cluster.place()
    assert place.url() == URL
    assert cluster.calls() == ["-df", f"-mkdir -p {URL}"]
    place.put({"1a.zip": archive, "2b.zip": archive})
    assert cluster.calls() == [f"-put 1a.zip 2b.zip {URL}/"]
    assert {path.name: path.read_text() for path in cluster.folder.iterdir()} == {
        "1a.zip": "content",
        "2b.zip": "content",
    }
    again = cluster.place()
    assert again.url() == URL
    again.put({"1a.zip": archive, "2b.zip": archive})
    assert cluster.calls() == []
    again.put({"1a.zip": archive, "3c.zip": archive})
    assert cluster.calls() == [f"-put 3c.zip {URL}/"]


def test_what_another_machine_has_brought_is_not_an_error(cluster, archive):
    for home in ("home", "another"):
        place = cluster.place(home)
        place.url()
        place.put({"1a.zip": archive})
    assert cluster.calls()[-2:] == [f"-put 1a.zip {URL}/", f"-ls -C {URL}/"]


def test_what_was_deleted_there_comes_back(cluster, archive):
    place = cluster.place()
    place.url()
    place.put({"1a.zip": archive, "2b.zip": archive})
    sources = [f"{URL}/1a.zip", f"{URL}/2b.zip", "file:///x.zip", "hdfs://other/1a.zip"]
    assert not place.restore(sources)
    (cluster.folder / "2b.zip").unlink()
    assert place.restore(sources)
    assert (cluster.folder / "2b.zip").read_text() == "content"
    shutil.rmtree(cluster.folder)
    assert place.restore(sources)
    assert sorted(path.name for path in cluster.folder.iterdir()) == ["1a.zip", "2b.zip"]
    (cluster.folder / "2b.zip").unlink()
    archive.unlink()
    with pytest.raises(UnavailableError) as caught:
        place.restore(sources)
    assert caught.value.message == (
        f"{URL}/2b.zip was deleted on the cluster, and there is no copy of it here"
    )


def test_nothing_is_asked_about_files_that_are_not_there(cluster):
    place = cluster.place()
    assert not place.restore(["file:///x.zip"])
    assert cluster.calls() == []


def test_a_mount_table_is_a_file_system_too(cluster):
    (cluster.base / "system").write_text("viewfs://cluster/")
    assert cluster.place().url() == "viewfs://cluster/user/ann/.tfapp/cache"


@pytest.mark.parametrize("system", ["file:///", "s3a://My-Bucket", "abfs://box@account.net", ""])
def test_a_file_system_that_skein_cannot_name_has_no_place(cluster, system):
    (cluster.base / "system").write_text(system)
    assert cluster.place().url() == ""


def test_a_file_system_that_is_not_up(cluster, archive):
    place = cluster.place()
    place.url()
    (cluster.base / "broken").touch()
    assert cluster.place("another").url() == ""
    with pytest.raises(UnavailableError) as caught:
        place.put({"1a.zip": archive})
    assert caught.value.message == (
        f"files cannot be brought to {URL}: put: Name node is in safe mode."
    )
    (cluster.base / "broken").unlink()
    place.put({"1a.zip": archive})
    assert [path.name for path in cluster.folder.iterdir()] == ["1a.zip"]


def test_a_name_node_that_is_down_is_asked_once(cluster, archive):
    place = cluster.place()
    place.url()
    (cluster.base / "down").touch()
    (cluster.base / "calls").unlink()
    with pytest.raises(UnavailableError, match="the cluster's file system does not answer: put: "):
        place.put({"1a.zip": archive})
    (call,) = (cluster.base / "calls").read_text().splitlines()
    assert call.startswith("-put ")
