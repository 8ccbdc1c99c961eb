"""A protocol of fsspec: on a real SFTP server, and on fsspec's own files in memory."""

import json
import os
import threading

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.lacking import needs_storage
from tests.programs import python
from tests.storage import programs, sftp_server
from tfapp.api import returned
from tfapp.program import returned as program
from tfapp.storage import base, check, folders, others
from tfapp.storage.base import Failed

pytestmark = needs_storage

BASE = "memory://base"
ODD = ("a#b", "a?b", "a%20b c", "ü+&=", "a::b")


@pytest.fixture(scope="module")
def sftp(tmp_path_factory):
    with sftp_server.running(tmp_path_factory.mktemp("sftp") / "root") as served:
        yield served


@pytest.fixture
def url(sftp, monkeypatch):
    """Of a folder on the server."""
    for name, value in sftp[1].items():
        monkeypatch.setenv(name, value)
    return f"{sftp[0]}/base"


@pytest.fixture
def memory():
    """The files of fsspec in this process."""
    yield others.Others(limit=10)
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.mark.trains
def test_all_that_tensorflow_does_with_files_works_by_sftp(sftp):
    programs.check_operations(f"{sftp[0]}/operations", sftp[1])


@pytest.mark.parametrize("name", ODD)
def test_names_are_whole(url, name):
    store = folders.store_of(url)
    folders.put(store, [name.encode()], f"{url}/odd/{name}")
    assert store.children(f"{url}/odd") == [name]
    assert folders.read(store, f"{url}/odd/{name}", len(name.encode())) == name.encode()
    store.remove_tree(f"{url}/odd")
    with pytest.raises(FileNotFoundError):
        store.stat(f"{url}/odd")


def test_doctor_checks_it(url):
    found = list(check.check(url, os.environ))
    assert [failed for _, _, failed in found] == [None] * 7
    assert found[0][1] == "of fsspec: FSSPEC_SFTP"


def test_a_scheme_that_is_not_asked_for_is_not_opened(monkeypatch):
    monkeypatch.delenv("TFAPP_STORAGE_SCHEMES", raising=False)
    assert folders.store_of("sftp://host/a") is None
    assert folders.store_of("sftp://host/a", schemes="webhdfs, sftp") is not None


def test_a_large_value_that_a_function_returns_comes_from_there(sftp, monkeypatch, tmp_path):
    """The caller has the credentials, and the record of the value says which schemes it opens."""
    environ = {
        **sftp[1],
        "TFAPP_CHECKPOINT_DIR": f"{sftp[0]}/saved",
        "TFAPP_COMPONENT": "worker",
        "TFAPP_LOG_DIR": str(tmp_path),
    }
    program.write("x" * 2_000_000, environ=environ)
    monkeypatch.setenv("FSSPEC_SFTP", sftp[1]["FSSPEC_SFTP"])
    record = (tmp_path / program.FILE).read_bytes()
    assert returned.decode(record) == "x" * 2_000_000


def test_a_server_that_ends_is_an_error_and_its_successor_is_used(tmp_path):
    with sftp_server.running(tmp_path) as (url, environ):
        store = others.Others(environ, limit=20)
        folders.put(store, [b"kept"], f"{url}/a")
    with pytest.raises((OSError, EOFError)):
        store.stat(f"{url}/a")
    with sftp_server.running(tmp_path, int(url.rpartition(":")[2])):
        assert folders.read(store, f"{url}/a", 4) == b"kept"


def test_a_file_is_there_whole_or_not_at_all(memory):
    folders.put(memory, [b"old"], f"{BASE}/a")
    writer = memory.writer(f"{BASE}/a", append=False)
    for _ in range(3):
        writer.append(bytes(5 << 20))
    assert folders.read(memory, f"{BASE}/a", 3) == b"old"
    assert memory.children(BASE) == ["a"]
    writer.close()
    assert memory.stat(f"{BASE}/a").length == 15 << 20
    assert memory.children(BASE) == ["a"]


def test_what_is_appended_comes_after_what_is_there(memory):
    folders.put(memory, [b"one"], f"{BASE}/a")
    writer = memory.writer(f"{BASE}/a", append=True)
    writer.append(b"two")
    assert (writer.tell(), memory.stat(f"{BASE}/a").length) == (6, 3)
    writer.close()
    assert folders.read(memory, f"{BASE}/a", 6) == b"onetwo"


class Odd(MemoryFileSystem):
    """An implementation whose `refuses` says what it does when a name is there already, and whose
    `cuts` says how many bytes are lost of a file."""

    refuses = None

    def mv(self, path1, path2, **more):
        if self.refuses and self.exists(path2):
            if self.refuses is FileExistsError:
                raise FileExistsError(path2)
            return
        super().mv(path1, path2, **more)


@pytest.mark.parametrize("refuses", [None, FileExistsError, "says nothing"])
def test_a_file_that_is_there_is_replaced(monkeypatch, memory, refuses):
    monkeypatch.setattr(Odd, "refuses", refuses)
    system = Odd(skip_instance_cache=True)
    system.pipe_file("/old", b"new content")
    system.pipe_file("/new", b"before")
    others.move(system, "/old", "/new", False)
    assert system.cat_file("/new") == b"new content" and not system.exists("/old")
    with pytest.raises(FileNotFoundError):
        others.move(system, "/none", "/nowhere", False)


def test_a_file_of_which_a_part_is_lost_is_an_error(monkeypatch, memory):
    monkeypatch.setattr(MemoryFileSystem, "info", lambda self, name: {"size": 1, "type": "file"})
    file = others._File(memory, f"{BASE}/a")
    with pytest.raises(ConnectionError, match="the server has 1 of 3 bytes"):
        file.put(b"abc")
    monkeypatch.undo()
    assert not MemoryFileSystem.store  # nor under another name


def test_a_call_has_a_deadline_and_its_instance_is_not_used_again(monkeypatch):
    answer, seen = threading.Event(), []

    def info(self, name):
        seen.append(self)
        if len(seen) == 1:
            answer.wait(30)
        return {"size": 1, "type": "file"}

    monkeypatch.setattr(MemoryFileSystem, "info", info)
    store = others.Others(limit=0.2)
    with pytest.raises(Failed, match=r"no answer within 0.2 s\. Does the server") as caught:
        store.stat(f"{BASE}/a")
    assert caught.value.code == base.LATE
    assert store.stat(f"{BASE}/a").length == store.stat(f"{BASE}/a").length == 1
    assert seen[1] is seen[2] is not seen[0]
    monkeypatch.setattr(others, "KEPT", 0.0)
    store.stat(f"{BASE}/a")
    assert seen[3] is not seen[2]
    answer.set()


def test_an_implementation_that_is_missing_is_told():
    with pytest.raises(Failed, match=r"site.global.python.packages") as caught:
        others.Others().stat("tos://bucket/a")
    assert caught.value.code == base.UNIMPLEMENTED
    with pytest.raises(ValueError, match="nonsense"):
        others.Others().stat("nonsense://a/b")


def test_the_url_goes_before_the_variables(sftp):
    store = others.Others({"FSSPEC_SFTP": json.dumps(sftp_server.SETTINGS | {"port": 1})})
    assert store.is_folder(f"{sftp[0]}/")


def test_folders(memory):
    memory.make_folder(f"{BASE}/a/b", parents=True)
    memory.make_folder(f"{BASE}/a/b", parents=True)
    with pytest.raises(FileExistsError):
        memory.make_folder(f"{BASE}/a/b")
    with pytest.raises(FileNotFoundError):
        memory.make_folder(f"{BASE}/none/b")
    with pytest.raises(Failed, match="not empty"):
        memory.remove_folder(f"{BASE}/a")
    folders.put(memory, [b"x"], f"{BASE}/a/b/file")
    memory.rename(f"{BASE}/a", f"{BASE}/c")
    assert (memory.children(BASE), memory.children(f"{BASE}/c/b")) == (["c"], ["file"])
    with pytest.raises(NotADirectoryError):
        memory.children(f"{BASE}/c/b/file")
    with pytest.raises(Failed, match="another server"):
        memory.rename(f"{BASE}/c", "memory://other/c")


def test_a_program_ends_with_open_connections(url, sftp):
    """In the middle of a file, with its own exit code."""
    program = (
        "import os, sys; from tfapp.storage import folders; url = sys.argv[1]\n"
        "store = folders.store_of(url); writer = store.writer(url, append=False)\n"
        "writer.append(bytes(9 << 20)); writer.flush(); store.stat(url.rpartition('/')[0])\n"
        "sys.exit(7)"
    )
    assert python("-c", program, f"{url}/half", environ=sftp[1]).returncode == 7
    assert folders.store_of(url).children(url) == []
