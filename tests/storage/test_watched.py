from pathlib import Path

import pytest

from tfapp.storage import watched
from tfapp.storage.watched import COPIES


class Store:
    """A store that takes all and keeps nothing."""

    def __init__(self):
        self.closed = []

    def writer(self, path, append):
        return Writer(self, path)

    def rename(self, old, new):
        pass

    def stat(self, path):
        return "a status"


class Writer:
    def __init__(self, store, path):
        self.store, self.path = store, path

    def append(self, content):
        pass

    def tell(self):
        return 7

    def close(self):
        self.store.closed.append(self.path)


@pytest.fixture
def environ(tmp_path):
    return {
        "TFAPP_PROGRESS_FILE": str(tmp_path / "progress"),
        "TFAPP_CHECKPOINT_DIR": "s3://bucket/app",
        "TFAPP_WORK_DIR": str(tmp_path),
    }


def write(store, path, content=b"x"):
    writer = store.writer(path, append=False)
    writer.append(content)
    assert writer.tell() == 7
    writer.close()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("s3://bucket/app/ckpt-1.index", True),
        ("s3://bucket/app/a/b", True),
        ("s3://bucket/application/ckpt-1", False),
        ("s3://bucket/app/events.out.tfevents.1.host", False),
    ],
)
def test_a_saved_file_is_told_once_it_is_closed(tmp_path, environ, path, told):
    store = watched.watching(Store(), environ)
    writer = store.writer(path, append=False)
    assert not Path(environ["TFAPP_PROGRESS_FILE"]).exists()
    writer.close()
    assert store.closed == [path]
    assert Path(environ["TFAPP_PROGRESS_FILE"]).exists() == told


def test_a_renamed_file_is_told(environ):
    watched.watching(Store(), environ).rename("s3://bucket/app/x", "s3://bucket/app/y")
    assert Path(environ["TFAPP_PROGRESS_FILE"]).exists()


def test_what_is_for_tensorboard_is_copied_up_to_a_size(tmp_path, environ, monkeypatch):
    monkeypatch.setattr(watched, "MOST_COPIED", 5)
    store = watched.watching(Store(), environ)
    writer = store.writer("s3://bucket/logs/train/events.out.tfevents.1.host", append=False)
    for content in (b"abc", b"de", b"f"):
        writer.append(content)
    writer.close()
    copy = tmp_path / COPIES / "train" / "events.out.tfevents.1.host"
    assert copy.read_bytes() == b"abcde"


def test_a_full_disk_here_is_no_error_of_the_program(environ):
    store = watched.watching(Store(), {**environ, "TFAPP_WORK_DIR": "/proc/none"})
    write(store, "s3://bucket/logs/train/events.out.tfevents.1.host")
    assert len(store.closed) == 1


def test_a_program_without_a_runner_has_the_store_itself():
    store = Store()
    assert watched.watching(store, {}) is store
    assert watched.watching(store, {"TFAPP_PROGRESS_FILE": "/p"}).stat("s3://a/b") == "a status"
