from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tfapp.master.bootstrap import BadArchiveError, unpack


def zip_of(path, *members):
    """Members: (name, content, mode)."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, content)
    return path


def tar_of(path, *members):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as file:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.mode = stat.S_IMODE(mode)
            if stat.S_ISLNK(mode):
                info.type, info.linkname = tarfile.SYMTYPE, content
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


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    link = ("a", str(tmp_path / "outside"), stat.S_IFLNK | 0o777)
    archive = tar_of(tmp_path / "a.tgz", link, ("a/x", "evil", 0o100644))
    with contextlib.suppress(BadArchiveError):
        unpack(archive, tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


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
