"""What tfapp itself does with folders on a real object store."""

import contextlib

import pytest

from tests import programs
from tests.cli.played_engine import PlayedEngine, shell
from tests.lacking import needs_storage
from tests.waiting import wait
from tfapp.engines.checkpoint_folder import stored_checkpoints
from tfapp.errors import NotFoundError, UnavailableError
from tfapp.launch import checkpoints
from tfapp.storage import folders, objects, writing

pytestmark = needs_storage

FOLDER = "s3://bucket/saved/app"


@pytest.fixture
def store(s3, monkeypatch, tmp_path):
    """With two files in FOLDER."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    store = folders.store_of(FOLDER)
    assert store is not None
    for name, content in {"checkpoint": b"newest", "a/b c%.txt": b"x" * 5_000_000}.items():
        (tmp_path / "file").write_bytes(content)
        folders.send(store, tmp_path / "file", f"{FOLDER}/{name}")
    yield store
    with contextlib.suppress(FileNotFoundError):
        store.remove_tree("s3://bucket/saved")


@pytest.mark.parametrize("folder", ["/mnt/saved", "file:///mnt", "gs://bucket/a", "s3", ""])
def test_what_is_opened_otherwise_has_no_store(folder):
    assert folders.store_of(folder) is None


def test_files_are_listed_and_fetched(store, tmp_path):
    found = stored_checkpoints("app", f"{FOLDER}/")
    assert [(one.path, one.size) for one in found.files("")] == [
        ("a/b c%.txt", 5_000_000),
        ("checkpoint", 6),
    ]
    assert [one.path for one in found.files("a")] == ["a/b c%.txt"]
    assert [one.path for one in found.files("checkpoint")] == ["checkpoint"]
    (tmp_path / "here").mkdir()
    found.copy("", tmp_path / "here")
    assert (tmp_path / "here/checkpoint").read_bytes() == b"newest"
    assert (tmp_path / "here/a/b c%.txt").read_bytes() == b"x" * 5_000_000
    with pytest.raises(NotFoundError, match="none"):
        found.files("none")


def test_an_error_of_the_store_is_a_sentence(store):
    with pytest.raises(UnavailableError, match=r"s3://nowhere/app: .*Make the bucket first"):
        stored_checkpoints("app", "s3://nowhere/app").files("")


def test_files_of_an_earlier_application_are_told_moved_aside_and_kept(store, tmp_path):
    engine, caller = PlayedEngine(tmp_path / "played", []), shell(tmp_path)
    checkpoints.prepare(FOLDER, engine, caller, fresh=False)
    assert f"{FOLDER} has files of an earlier application" in caller.err.text
    checkpoints.prepare(FOLDER, engine, caller, fresh=True)
    (aside,) = store.children("s3://bucket/saved")
    assert f"are in s3://bucket/saved/{aside} now" in caller.err.text
    assert sorted(path for path, _ in folders.walk(store, f"s3://bucket/saved/{aside}")) == [
        "a/b c%.txt",
        "checkpoint",
    ]
    checkpoints.prepare(FOLDER, engine, caller, fresh=True)  # nothing is there any more
    assert store.children("s3://bucket/saved") == [aside]


@pytest.mark.parametrize(("home", "deleted"), [("s3://bucket/saved", True), ("s3://b", False)])
def test_destroy_deletes_what_is_in_the_folder_that_tfapp_chose(store, tmp_path, home, deleted):
    engine, caller = PlayedEngine(tmp_path / "played", []), shell(tmp_path)
    engine.sees_home, engine.checkpoint_home = False, lambda: home
    assert checkpoints.settle(FOLDER, engine, caller, delete=False) == (
        f"its files stay in {FOLDER}"
    )
    said = checkpoints.settle(FOLDER, engine, caller, delete=True)
    assert said.startswith(f"its files in {FOLDER} are deleted" if deleted else "its files stay in")
    if deleted:
        assert checkpoints.settle(FOLDER, engine, caller, delete=True) == "it has saved nothing"


def test_a_folder_that_is_made_is_there_with_those_above_it(store):
    store.make_folder("s3://bucket/made/here/deep", parents=True)
    assert all(store.stat(f"s3://bucket/{one}").is_folder for one in ("made/here/deep", "made"))
    with pytest.raises(FileNotFoundError):
        store.stat("s3://bucket/mad")
    store.remove_tree("s3://bucket/made")
    with pytest.raises(FileNotFoundError):
        store.stat("s3://bucket/made/here")


def test_a_flush_that_comes_too_soon_is_seen_later(store, monkeypatch):
    monkeypatch.setattr(writing, "FLUSH_PAUSE", 1.0)
    url = f"{FOLDER}/events"
    writer = store.writer(url, append=False)
    for content in (b"a", b"b", b"c"):
        writer.append(content)
        writer.flush()
    assert folders.read(store, url, 1) == b"a"
    wait(lambda: folders.read(store, url, 3) == b"abc", "the flush does not come", 30)
    writer.append(b"d")
    writer.flush()
    writer.close()
    assert folders.read(store, url, 4) == b"abcd"


def test_a_folder_is_renamed_with_all_that_is_in_it(store):
    names = {f"{number % 7}/{number}": b"%d" % number for number in range(60)}
    for name, content in names.items():
        folders.put(store, [content], f"{FOLDER}/many/{name}")
    store.rename(f"{FOLDER}/many", f"{FOLDER}/moved")
    assert {path for path, _ in folders.walk(store, f"{FOLDER}/moved")} == {*names}
    assert folders.read(store, f"{FOLDER}/moved/3/59", 2) == b"59"
    with pytest.raises(FileNotFoundError):
        store.stat(f"{FOLDER}/many")


def test_what_a_listing_has_told_is_not_asked_for(store, monkeypatch):
    asked = []
    real = objects.call
    monkeypatch.setattr(objects, "call", lambda *all, **more: (asked.append(all[0]), real(*all))[1])
    assert store.children(FOLDER) == ["a", "checkpoint"]
    assert not store.is_folder(f"{FOLDER}/checkpoint")
    assert asked == ["list_with_delimiter"]
    assert store.is_folder(f"{FOLDER}/a")  # and a folder is asked for
    with pytest.raises(FileNotFoundError):
        store.is_folder(f"{FOLDER}/none")
    store.remove(f"{FOLDER}/checkpoint")
    with pytest.raises(FileNotFoundError):
        store.is_folder(f"{FOLDER}/checkpoint")
    for number in range(9):
        store.is_folder(FOLDER + "/a") and store.children(FOLDER + "/a" * (number % 2))
    assert len(store._listed) <= objects.MOST_LISTED


FLUSHES = """
import sys
import tfapp.storage
tfapp.storage.register()
import tensorflow as tf
file = tf.io.gfile.GFile(sys.argv[1], "w")
for text in "abc":
    file.write(text)
    file.flush()
sys.exit(7)
"""


ENDS = """
import atexit
from tfapp.storage import plugin
atexit.register(print, "the gate is closed")  # as plugin does when it loads
from tfapp.storage import writing  # when a URL is opened first
class Writer:
    def flush_last(self):
        print("the last flush")
writing._waiting.add(Writer())
"""


def test_the_last_flush_is_made_when_nothing_is_written_any_more():
    assert programs.printed("-c", ENDS).splitlines() == ["the gate is closed", "the last flush"]


@pytest.mark.trains
def test_a_flush_that_waits_is_made_at_the_end_of_python(store):
    url = f"{FOLDER}/flushed"
    done = programs.python("-c", FLUSHES, url)
    assert done.returncode == 7, done.stderr
    assert folders.read(store, url, 3) == b"abc"
