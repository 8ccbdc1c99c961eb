"""The shared folder on a cluster, with a pretended `hadoop fs` on a folder."""

import shutil

import pytest

from tests.engines.yarn.file_system import CACHE, FOLDER, URL, FileSystem
from tfapp.engines.yarn.shared_folder import FolderListing
from tfapp.errors import UnavailableError


@pytest.fixture
def cluster(tmp_path):
    return FileSystem(tmp_path / "a cluster")


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "some file#1"
    path.write_text("content")
    return path


def test_what_has_not_changed_costs_nothing(cluster, archive):
    shared = cluster.shared_folder()
    assert shared.url() == URL
    assert cluster.calls() == ["-df"]  # nothing is made before there is a file
    shared.put({"1a.zip": archive, "2b.zip": archive})
    made = f"-mkdir {FOLDER} {CACHE}"
    put = f"-put 1a.zip 2b.zip {CACHE}/"
    assert cluster.calls() == [made, "-mkdir -p /user/ann", made, put]
    assert {path.name: path.read_text() for path in cluster.folder.iterdir()} == {
        "1a.zip": "content",
        "2b.zip": "content",
    }
    again = cluster.shared_folder()
    assert again.url() == URL
    again.put({"1a.zip": archive, "2b.zip": archive})
    assert cluster.calls() == []
    again.put({"1a.zip": archive, "3c.zip": archive})
    assert cluster.calls() == [f"-put 3c.zip {CACHE}/"]


def test_its_size(cluster, archive):
    shared = cluster.shared_folder()
    assert shared.size() == 0  # there is no folder yet
    shared.put({"1a.zip": archive, "2b.zip": archive})
    assert shared.size() == 2 * archive.stat().st_size
    (cluster.base / "down").touch()
    assert shared.size() is None


def test_only_its_own_folders_are_private(cluster, archive):
    cluster.shared_folder().put({"1a.zip": archive})
    home = cluster.base / "there" / "user" / "ann"
    folders = (home.parent, home, home / ".tfapp", home / ".tfapp" / "cache")
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o755, 0o755, 0o700, 0o700]
    shutil.rmtree(home / ".tfapp" / "cache")
    cluster.calls()
    cluster.shared_folder("another").put({"1a.zip": archive})  # the folder above it is there
    assert cluster.calls() == [f"-mkdir {FOLDER} {CACHE}", f"-put 1a.zip {CACHE}/"]


def test_what_another_machine_has_brought_is_not_an_error(cluster, archive):
    for home in ("home", "another"):
        shared = cluster.shared_folder(home)
        shared.url()
        shared.put({"1a.zip": archive})
    assert cluster.calls()[-2:] == [f"-put 1a.zip {CACHE}/", f"-ls -C {CACHE}/"]


def test_what_hinders_is_told_rather_than_what_is_there(cluster, archive):
    cluster.shared_folder().put({"1a.zip": archive})
    (cluster.base / "locked").touch()
    with pytest.raises(UnavailableError, match="put: Name node is in safe mode"):
        cluster.shared_folder("another").put({"1a.zip": archive, "3c.zip": archive})


def test_what_was_deleted_there_comes_back(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    shared.put({"1a.zip": archive, "2b.zip": archive})
    sources = [f"{URL}/1a.zip", f"{URL}/2b.zip", "file:///x.zip", "hdfs://other/1a.zip"]
    assert not shared.restore(sources)
    (cluster.folder / "2b.zip").unlink()
    assert shared.restore(sources)
    assert (cluster.folder / "2b.zip").read_text() == "content"
    shutil.rmtree(cluster.folder)
    assert shared.restore(sources)
    assert sorted(path.name for path in cluster.folder.iterdir()) == ["1a.zip", "2b.zip"]
    (cluster.folder / "2b.zip").unlink()
    archive.unlink()
    with pytest.raises(UnavailableError) as caught:
        shared.restore(sources)
    assert caught.value.message == (
        f"{URL}/2b.zip was deleted on the cluster, and there is no copy of it here"
    )


def test_what_was_deleted_there_is_missing_elsewhere(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    shared.put({"1a.zip": archive, "2b.zip": archive})
    (cluster.folder / "2b.zip").unlink()
    with pytest.raises(UnavailableError, match="2b.zip was deleted on the cluster, and there is"):
        cluster.shared_folder("elsewhere").restore([f"{URL}/1a.zip", f"{URL}/2b.zip"])


def test_nothing_is_asked_about_files_that_are_not_there(cluster):
    shared = cluster.shared_folder()
    assert not shared.restore(["file:///x.zip"])
    assert cluster.calls() == []


def test_a_mount_table_is_a_file_system_too(cluster):
    (cluster.base / "system").write_text("viewfs://cluster/")
    assert cluster.shared_folder().url() == "viewfs://cluster/user/ann/.tfapp/cache"


@pytest.mark.parametrize("system", ["file:///", "s3a://My-Bucket", "abfs://box@account.net", ""])
def test_a_file_system_that_skein_cannot_name_has_no_shared_folder(cluster, system):
    (cluster.base / "system").write_text(system)
    assert cluster.shared_folder().url() == ""


def test_a_file_system_that_is_not_up(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    (cluster.base / "broken").touch()
    assert cluster.shared_folder("another").url() == ""
    with pytest.raises(UnavailableError) as caught:
        shared.put({"1a.zip": archive})
    assert caught.value.message == (
        f"files cannot be brought to {URL}: mkdir: Name node is in safe mode."
    )
    (cluster.base / "broken").unlink()
    shared.put({"1a.zip": archive})
    assert [path.name for path in cluster.folder.iterdir()] == ["1a.zip"]


def test_a_name_node_that_is_down_is_asked_once(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    (cluster.base / "down").touch()
    (cluster.base / "calls").unlink()
    with pytest.raises(UnavailableError, match="the cluster's file system does not answer: mkd"):
        shared.put({"1a.zip": archive})
    assert cluster.calls() == [f"-mkdir {FOLDER} {CACHE}"]
    (cluster.base / "down").unlink()
    shared.put({"1a.zip": archive})
    (cluster.base / "down").touch()
    cluster.calls()
    for ask in (
        lambda: shared.put({"2b.zip": archive}),
        lambda: shared.read(["1a.zip"]),
        lambda: shared.mark(["application_1_0001"]),
    ):
        with pytest.raises(UnavailableError, match="the cluster's file system does not answer: "):
            ask()
    assert shared.look() is None
    assert [call.split()[0] for call in cluster.calls()] == ["-put", "-cat", "-mkdir", "-stat"]


def test_what_may_come_later_goes_along_or_comes_by_itself(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    shared.put({"1a.zip": archive}, along={"3c.definition": b"text"})
    assert cluster.files() == {"1a.zip", "3c.definition"}
    cluster.calls()
    shared.put({"1a.zip": archive}, along={"4d.definition": b"more"})
    shared.keep({"3c.definition": b"text"})
    assert cluster.calls() == []
    shared.keep({"4d.definition": b"more"})
    assert cluster.calls() == [f"-put 4d.definition {CACHE}/"]
    assert shared.read(["4d.definition", "gone", "3c.definition"]) == b"textmore"


def test_what_was_destroyed_is_seen_by_everybody(cluster, archive):
    here, elsewhere = cluster.shared_folder("here", now=5000.0), cluster.shared_folder("elsewhere")
    assert here.look() == FolderListing()  # there is no folder yet
    runs = ["application_1_0001", "application_1_0002"]
    elsewhere.mark(runs)
    elsewhere.put({"1a.zip": archive})
    brought = (cluster.folder / "1a.zip").stat().st_mtime
    assert here.look() == FolderListing()  # a command asks once
    (name,) = cluster.files()
    found = cluster.shared_folder("here", now=6000.0).look()
    size = archive.stat().st_size
    assert found == FolderListing({name: pytest.approx(brought, abs=0.01)}, frozenset(runs), size)
    assert cluster.shared_folder("here").looked() == 6000.0
    assert cluster.shared_folder("elsewhere").looked() == 0.0
    elsewhere.delete([name], runs[:1])
    assert (cluster.files(), cluster.marks()) == (set(), {runs[1]})
    cluster.calls()
    elsewhere.delete([], [])
    assert cluster.calls() == []


def test_what_is_gone_at_a_look_is_brought_again(cluster, archive):
    shared = cluster.shared_folder()
    shared.put({"1a.zip": archive, "2b.zip": archive})
    cluster.shared_folder("elsewhere").delete(["1a.zip"], [])
    assert shared.look() is not None
    cluster.calls()
    shared.put({"1a.zip": archive, "2b.zip": archive})
    assert cluster.calls() == [f"-put 1a.zip {CACHE}/"]
    assert cluster.shared_folder().look() is not None
    cluster.calls()
    shared.put({"1a.zip": archive})
    assert cluster.calls() == []


def test_what_is_gone_at_a_look_can_be_restored(cluster, archive):
    shared = cluster.shared_folder()
    shared.url()
    shared.put({"1a.zip": archive}, along={"3c.definition": b"text"})
    shutil.rmtree(cluster.folder)
    assert shared.look() == FolderListing()
    assert shared.restore([f"{URL}/1a.zip"])
    cluster.calls()
    shared.keep({"3c.definition": b"text"})
    assert cluster.calls() == [f"-put 3c.definition {CACHE}/"]
    assert cluster.files() == {"1a.zip", "3c.definition"}


def test_a_look_that_fails_changes_nothing(cluster, archive):
    shared = cluster.shared_folder()
    shared.put({"1a.zip": archive})
    (cluster.base / "broken").touch()
    assert shared.look() is None
    (cluster.base / "broken").unlink()
    cluster.calls()
    shared.put({"1a.zip": archive})
    assert cluster.calls() == []


def test_what_cannot_be_marked_is_not_destroyed(cluster):
    (cluster.base / "broken").touch()
    with pytest.raises(UnavailableError) as caught:
        cluster.shared_folder().mark(["application_1_0001"])
    assert caught.value.message == (
        "the cluster does not take note of it: mkdir: Name node is in safe mode."
    )
    assert caught.value.hint == f"The folder {FOLDER} must be writable."
