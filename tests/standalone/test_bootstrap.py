import contextlib
import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.signals import send_to_another_thread
from tfapp.engines.credentials import new_credentials
from tfapp.standalone import bootstrap
from tfapp.standalone.bootstrap import BadArchiveError, unpack


def zip_of(path, *members):
    """Members: (name, content, mode)."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, content)
    return path


HARD = 0o170644  # no mode that there is: a hard link
LINK, FOLDER, FILE = stat.S_IFLNK | 0o777, stat.S_IFDIR | 0o777, stat.S_IFREG | 0o644


def tar_of(path, *members):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as file:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.mode = stat.S_IMODE(mode)
            if stat.S_ISLNK(mode) or mode == HARD:
                kind = tarfile.LNKTYPE if mode == HARD else tarfile.SYMTYPE
                info.type, info.linkname = kind, content
                file.addfile(info)
            elif stat.S_ISDIR(mode):
                info.type = tarfile.DIRTYPE
                file.addfile(info)
            else:
                info.size = len(content)
                file.addfile(info, io.BytesIO(content.encode()))
    return path


MAKERS = [(zip_of, "a.zip"), (tar_of, "a.tar"), (tar_of, "a.tar.gz"), (tar_of, "a.tgz")]


@pytest.mark.parametrize(("make", "name"), MAKERS)
class TestUnpack:
    def test_files_and_modes(self, tmp_path, make, name):
        archive = make(
            tmp_path / name,
            ("bin/run", "go", stat.S_IFREG | 0o755),
            ("data", "x", stat.S_IFREG | 0o444),
        )
        target = tmp_path / "out"
        unpack(archive, target)
        assert {
            str(p.relative_to(target)): (p.read_text(), oct(p.stat().st_mode & 0o777))
            for p in target.rglob("*")
            if p.is_file()
        } == {"bin/run": ("go", "0o755"), "data": ("x", "0o644" if make is zip_of else "0o444")}

    @pytest.mark.parametrize("bad", ["../out", "a/../../x"])
    def test_paths_stay_inside(self, tmp_path, make, name, bad):
        archive = make(tmp_path / name, ("good", "", 0o100644), (bad, "", 0o100644))
        with pytest.raises(BadArchiveError, match="leads out of it"):
            unpack(archive, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert sorted(p.name for p in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize("bad", ["/etc/x", "a\\..\\x"])
def test_paths_in_a_zip_are_those_of_this_system(tmp_path, bad):
    archive = zip_of(tmp_path / "a.zip", (bad, "", 0o100644))
    with pytest.raises(BadArchiveError, match="leads out of it"):
        unpack(archive, tmp_path / "out")


def test_links_in_a_zip_are_refused(tmp_path):
    archive = zip_of(tmp_path / "a.zip", ("link", "/etc/passwd", stat.S_IFLNK | 0o777))
    with pytest.raises(BadArchiveError, match="link or device: 'link'"):
        unpack(archive, tmp_path / "out")


def test_links_in_a_tar_are_links(tmp_path):
    """As on a node of YARN: bin/python of a virtual environment leads to the system's."""
    link = ("bin/python", "/usr/bin/python3", stat.S_IFLNK | 0o777)
    unpack(tar_of(tmp_path / "a.tgz", link), tmp_path / "out")
    assert (tmp_path / "out/bin/python").readlink() == Path("/usr/bin/python3")


@pytest.mark.parametrize("filtered", [True, False])  # older Pythons have no tarfile.tar_filter
@pytest.mark.parametrize(
    "members",
    [
        [("a", "{out}", LINK), ("a/victim", "evil", FILE)],
        [("a", "{out}", LINK), ("a", "", FOLDER)],  # would change its mode
        [("a", "{out}/victim", LINK), ("a", "evil", FILE)],
        [("a", "{out}/victim", HARD)],
        [("a", "../../outside/victim", HARD), ("a", "evil", FILE)],
        [("b", "{out}", LINK), ("a", "b/victim", HARD), ("a", "evil", FILE)],
        [("{out}/victim", "evil", FILE)],
        [("{out}/new", "evil", FILE)],
        [("../outside/victim", "evil", FILE)],
    ],
)
def test_nothing_outside_is_touched(tmp_path, monkeypatch, members, filtered):
    if not filtered:
        monkeypatch.delattr(tarfile, "tar_filter", raising=False)
    outside = tmp_path / "outside"
    outside.mkdir(0o750)
    victim = outside / "victim"
    victim.write_text("mine")
    victim.chmod(0o640)

    def stats():
        found = [path.stat() for path in (outside, victim)]
        return [(each.st_mode, each.st_nlink, each.st_mtime_ns) for each in found]

    before = stats()
    archive = tar_of(
        tmp_path / "a.tgz",
        *((name.format(out=outside), text.format(out=outside), m) for name, text, m in members),
    )
    with contextlib.suppress(BadArchiveError):
        unpack(archive, tmp_path / "out")
    assert [p.name for p in outside.iterdir()] == ["victim"]
    assert victim.read_text() == "mine"
    assert stats() == before


def test_a_file_that_comes_again_is_the_later_one(tmp_path):
    """A hard link to the first keeps its content, as with tar."""
    archive = tar_of(tmp_path / "a.tgz", ("a", "1", FILE), ("b", "a", HARD), ("a", "2", FILE))
    unpack(archive, tmp_path / "out")
    assert [(tmp_path / "out" / name).read_text() for name in "ab"] == ["2", "1"]


def test_a_damaged_tar(tmp_path):
    archive = tar_of(tmp_path / "a.tgz", ("data", "x" * 100_000, 0o100644))
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(BadArchiveError, match="cannot be unpacked: "):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_a_truncated_archive_is_never_there(tmp_path, make, name):
    whole = make(tmp_path / name, *((f"f{n}", "x" * 20_000, 0o100644) for n in range(3)))
    data = whole.read_bytes()
    needed = 3 * (512 + 20_480) if name == "a.tar" else len(data)  # the rest of a tar is empty
    for length in range(0, needed, needed // 20):
        whole.write_bytes(data[:length])
        with pytest.raises(BadArchiveError):
            unpack(whole, tmp_path / "out")
        assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_it_can_be_stopped_between_files(tmp_path, make, name):
    archive = make(tmp_path / name, *((f"f{n}", "x", 0o100644) for n in range(9)))
    answers = iter([False, False, True])
    with pytest.raises(InterruptedError):
        unpack(archive, tmp_path / "out", lambda: next(answers))
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_something_else_is_refused(tmp_path):
    (tmp_path / "a.zip").write_text("no archive")
    with pytest.raises(BadArchiveError, match="neither a zip nor a tar"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


STAYS = """
import os, sys, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
from tfapp.standalone.bootstrap import run
sys.exit(run(dict(os.environ)))
"""


@pytest.mark.parametrize("content", [b"", b"\xff", b'{"value": ', b"[" * 100_000])
def test_a_damaged_record_of_what_was_returned_changes_no_exit_code(tmp_path, content):
    (tmp_path / ".skein.sh").write_text("exit 3")
    (tmp_path / "tfapp-returned.json").write_bytes(content)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STAYS]
    environ["LOG_DIRS"] = str(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, b"")


def test_a_script_is_asked_to_end_although_its_parent_begins_to_wait(tmp_path):
    script = "trap 'echo asked; exit 3' TERM; echo runs; while true; do sleep 0.1; done"
    (tmp_path / ".skein.sh").write_text(script)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", STAYS],
        cwd=tmp_path,
        env={**environ, "LOG_DIRS": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert [process.stdout.readline() for _ in range(2)][1] == "runs\n"
            send_to_another_thread(process.pid, signal.SIGTERM)
            assert process.communicate(timeout=60)[0] == "asked\n"
            assert process.returncode == 3
        finally:
            process.kill()


def test_a_container_that_has_not_begun_waits_for_the_next_master(tmp_path, monkeypatch):
    """Where the witness says that there will be one, and for so long."""
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    for path, content in zip((certificate, key), new_credentials(time.time())):
        path.write_bytes(content)
    client = bootstrap.MasterClient("old:2", str(certificate), str(key), "container_1_0001_01_2")
    said = {"may_live": True, "address": "", "files": "", "version": "1"}
    monkeypatch.setattr(bootstrap, "ask_witness", lambda id, key: said)
    now = time.monotonic()
    assert not client.is_expected(now)  # it has none
    monkeypatch.setenv(bootstrap.ENV_WITNESS, "300 tfapp-a.witness")
    assert (client.is_expected(now), client.address) == (True, ("old", 2))
    assert not client.is_expected(now - 301)
    said["files"] = "new:2"
    assert (client.is_expected(now), client.address) == (True, ("new", 2))
    said["may_live"] = False
    with pytest.raises(PermissionError):
        client.is_expected(now)
    said = None
    assert not client.is_expected(now)
