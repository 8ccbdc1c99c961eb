"""The check of a URL on a real S3 server; and its faults, on a store in memory."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time

import pytest

from tests.lacking import needs_storage
from tests.storage import s3_server
from tfapp.storage import base, check, objects
from tfapp.storage.base import Failed

STEPS = ["credentials", "write", "read", "rename", "list", "speed", "delete"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s3") / "buckets"
    with s3_server.running(folder, ("tests",)) as environ:
        yield folder, environ


@pytest.fixture
def s3(server, monkeypatch, tmp_path):
    """The folder of the buckets. This process has the variables of the server."""
    folder, environ = server
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**environ, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return folder


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if ".sgwtmp" not in path.parts}


@needs_storage
@pytest.mark.parametrize("url", ["s3://tests", "s3a://tests/a folder/#1?/", "s3://tests/data"])
def test_a_folder_that_can_be_used(s3, url):
    (s3 / "tests" / "data").mkdir(exist_ok=True)
    (s3 / "tests" / "data" / "small").write_text("somebody's")
    before = files(s3 / "tests")
    found = list(check.check(url, os.environ))
    assert [(step, failed) for step, _, failed in found] == [(step, None) for step in STEPS]
    assert found[0][1] == (
        "S3_ACCESS_KEY and S3_SECRET_KEY; endpoint: S3_ENDPOINT; region: not set (us-east-1)"
    )
    assert found[1][1].startswith(f"a file in {url.rstrip('/')}/.tfapp-doctor-")
    assert files(s3 / "tests") == before


@needs_storage
@pytest.mark.parametrize(
    ("url", "changes", "words", "hint"),
    [
        ("s3://none/x", {}, "NoSuchBucket", "Make the bucket first, or correct its name."),
        ("s3://", {}, "expected s3://BUCKET/NAME", ""),
        ("s3://tests", {"S3_SECRET_KEY": "x"}, "SignatureDoesNotMatch", "Credentials are AWS_"),
        ("s3://tests", {"AWS_REGION": "eu-west-1"}, "eu-west-1", "Set AWS_REGION to the region"),
        pytest.param(
            *("s3://tests", {"S3_ENDPOINT": "127.0.0.1:9"}, "HTTP error", "Is the endpoint right"),
            marks=pytest.mark.slow,
        ),
        ("hdfs://127.0.0.1:9/x", {}, "cannot connect to 127.0.0.1:9", "Is the address right"),
    ],
)
def test_what_is_wrong_and_what_to_do(s3, monkeypatch, url, changes, words, hint):
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    before = files(s3 / "tests")
    (_, credentials, _), (step, _, failed) = check.check(url, os.environ, limit=120)
    assert step == "write"
    assert (
        words in failed.words and failed.hint.startswith(hint) and bool(failed.hint) == bool(hint)
    )
    for secret in ("secret-of-tests", os.environ["S3_SECRET_KEY"]):
        assert len(secret) < 2 or secret not in credentials + failed.words + failed.hint
    assert files(s3 / "tests") == before


@needs_storage
def test_a_server_that_does_not_answer(s3, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("S3_ENDPOINT", f"127.0.0.1:{silent.getsockname()[1]}")
        (_, (step, _, failed)) = check.check("s3://tests", os.environ, limit=0.3)
    assert (step, failed.words) == ("write", "it has not ended within 0.3 s")
    assert failed.hint.startswith("The server does not answer")


def test_the_extra_is_not_installed(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    (_, (step, _, failed)) = check.check("s3://tests", os.environ)
    assert (step, failed.hint) == ("write", "Install the extra: pip install 'tfapp[storage]'.")


class InMemory:
    """A store. `faults`: what happens before its calls, by their number of the same name."""

    def __init__(self, **faults):
        self.content = {"s3://b/a/small": b"somebody's", "s3://b/a/x/renamed": b"somebody's"}
        self.faults, self.calls = faults, []

    def _do(self, name):
        self.calls.append(name)
        fault = self.faults.get(f"{name}{self.calls.count(name)}")
        if callable(fault):
            fault()
        elif fault:
            raise fault

    def children(self, path):
        self._do("children")
        names = sorted(n[len(path) + 1 :] for n in self.content if n.startswith(f"{path}/"))
        if not names:
            raise FileNotFoundError(path)
        return names

    def make_folder(self, path):
        self._do("make_folder")

    def remove_folder(self, path):
        self._do("remove_folder")

    def remove(self, path):
        self._do("remove")
        del self.content[path]

    def rename(self, old, new):
        self._do("rename")
        self.content[new] = self.content.pop(old)

    def writer(self, path, append):
        return InMemoryFile(self, path)

    def source(self, path):
        return InMemoryFile(self, path)


class InMemoryFile:
    def __init__(self, store, path):
        self.store, self.path = store, path
        self.length = len(store.content.get(path, b""))

    def append(self, content):
        self.store._do("append")
        self.store.content[self.path] = content

    def close(self):
        self.store._do("close")

    def read(self, offset, count):
        self.store._do("read")
        return self.store.content[self.path][offset : offset + count]


@pytest.fixture
def checked(monkeypatch):
    """Checks a store with these faults: it, and the results as they come."""

    def begin(limit=5.0, **faults):
        store = InMemory(**faults)
        monkeypatch.setattr(objects, "Objects", lambda environ: store)
        return store, check.check("s3://b/a", {"S3_ACCESS_KEY": "k"}, limit)

    return begin


BEFORE = {"s3://b/a/small", "s3://b/a/x/renamed"}
BUSY = Failed(base.UNAVAILABLE, "busy", "Wait")
DENIED = PermissionError("denied")


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        ({"append1": BUSY}, "write"),
        ({"close1": BUSY}, "write"),
        ({"read1": DENIED}, "read"),
        ({"rename1": DENIED}, "rename"),
        ({"read2": BUSY}, "rename"),
        ({"children2": DENIED}, "list"),
        ({"append2": BUSY}, "speed"),
        ({"close2": BUSY}, "speed"),
    ],
)
def test_after_a_failure_its_own_files_are_removed(checked, fault, step):
    store, results = checked(**fault)
    *_, failed, last = results
    assert (failed[0], failed[2].words) == (step, str(next(iter(fault.values()))).split(".")[0])
    assert last == ("delete", "nothing is left", None)
    assert set(store.content) == BEFORE


def test_what_cannot_be_removed_is_named(checked):
    store, results = checked(remove1=BUSY)
    *_, (step, _, failed) = results
    (left,) = {name.rpartition("/")[0] for name in set(store.content) - BEFORE}
    assert (step, failed.words) == ("delete", "something may be left: busy")
    assert failed.hint == f"Delete {left} if it is there."


@pytest.mark.parametrize("wrong", [b"", bytes(1024)])
def test_other_content_is_a_failure(checked, wrong):
    store, results = checked(make_folder1=None)

    def spoil():
        (own,) = set(store.content) - BEFORE
        store.content[own] = wrong

    store.faults["close1"] = spoil
    found = {step: failed for step, _, failed in results}
    assert found["read"].words == "what is read is not what was written"
    assert set(store.content) == BEFORE


def test_an_interrupted_check_removes_its_files(checked):
    store, results = checked()
    assert [next(results)[0] for _ in range(3)] == ["credentials", "write", "read"]
    assert len(store.content) == 3
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert set(store.content) == BEFORE


@pytest.mark.parametrize("call", ["append1", "rename1", "append2", "remove1", "remove_folder1"])
def test_ctrl_c_waits_for_the_step_that_runs(checked, call):
    def slow():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # what the call takes

    store, results = checked(**{call: slow})
    with pytest.raises(KeyboardInterrupt):
        list(results)
    assert set(store.content) == BEFORE
    begun = [name for name in store.calls if name in ("append", "close")]
    assert begun in (["append", "close"], ["append", "close"] * 2)
    assert "append" not in store.calls[store.calls.index("remove_folder") :]


def test_a_late_step_is_waited_for_before_its_files_are_removed(checked):
    go_on = threading.Event()
    store, results = checked(limit=0.2, append2=lambda: go_on.wait(30))
    for step, _, failed in results:
        if step == "speed":
            assert failed.code == base.LATE
            go_on.set()
    assert (step, failed) == ("delete", None)
    assert set(store.content) == BEFORE


def test_a_question_that_is_answered_late_makes_nothing(checked):
    go_on = threading.Event()
    store, results = checked(limit=0.1, children1=lambda: go_on.wait(30))
    with contextlib.closing(results):
        assert [step for step, _, _ in results] == ["credentials", "write"]
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "tfapp-storage-check":
            thread.join(30)
    assert set(store.content) == BEFORE
