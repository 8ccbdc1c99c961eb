"""A package in a .zip: what is in it, and what keeps it from being shipped."""

import stat
import zipfile

import pytest

from tests.package.packages import report
from tfapp.errors import InvalidPackageError, NotFoundError, UnavailableError
from tfapp.package import archive, safety
from tfapp.package.source import open_source

LINK = (stat.S_IFLNK | 0o777) << 16
PIPE = (stat.S_IFIFO | 0o644) << 16


def write(path, *members):
    """Members are (name, content) or (name, content, external attributes)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content, *attributes in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = attributes[0] if attributes else 0o644 << 16
            file.writestr(info, content)
    return path


def refusal(path):
    with pytest.raises(InvalidPackageError) as caught:
        open_source(path, str(path))
    return report(caught.value.problems, path.parent)


def test_files_of_a_zip(tmp_path):
    members = (
        ("scripts/", b""),
        ("scripts/run.sh", b"true", (stat.S_IFREG | 0o755) << 16),
        ("./metainfo.yaml", b"a: 1"),
        ("scripts/__pycache__/run.pyc", b""),
    )
    source = open_source(write(tmp_path / "app.zip", *members), "app.zip")
    assert source.label == "app.zip"
    assert source.files() == ("metainfo.yaml", "scripts/run.sh")
    assert source.read("metainfo.yaml") == b"a: 1"
    assert [source.executable(name) for name in source.files()] == [False, True]
    with pytest.raises(NotFoundError, match=r"app.zip has no file gone"):
        source.read("gone")


def test_a_zip_of_a_folder_is_the_folder(tmp_path):
    """As a file manager makes it of the package's folder."""
    members = ("app/metainfo.yaml", b"a: 1"), ("app/scripts/run.sh", b"true")
    source = open_source(write(tmp_path / "app.zip", *members), "app.zip")
    assert source.files() == ("metainfo.yaml", "scripts/run.sh")
    assert source.read("scripts/run.sh") == b"true"
    beside = write(tmp_path / "two.zip", *members, ("README", b""))
    assert "app/metainfo.yaml" in open_source(beside, "two.zip").files()


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut off"])
def test_no_zip(tmp_path, content):
    path = tmp_path / "app.zip"
    path.write_bytes(content)
    assert refusal(path).startswith("app.zip: error: this is neither a folder nor a .zip: ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../evil.py", "leads out with '..'"),
        ("a/../../evil.py", "leads out with '..'"),
        ("/etc/evil.py", "is an absolute path"),
        ("C:/evil.py", "is an absolute path"),
        ("a\\..\\evil.py", "has a backslash in it"),
        ("a\x1bb", "has a control character in it"),
    ],
)
def test_slip(tmp_path, name, why):
    found = refusal(write(tmp_path / "app.zip", (name, b"")))
    assert found == (
        f"app.zip: error: the file name {name!r} {why} [unsafe-path]\n  hint: rename the file\n"
    )


def test_a_name_with_a_nul(tmp_path):
    path = write(tmp_path / "app.zip", ("harmless@.py", b""))
    path.write_bytes(path.read_bytes().replace(b"harmless@.py", b"harmless\0.py"))
    assert "has a control character in it" in refusal(path)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [(LINK, "the .zip holds a link"), (PIPE, "this is not a regular file")],
)
def test_no_file(tmp_path, attributes, why):
    found = refusal(write(tmp_path / "app.zip", ("l", b"/etc/passwd", attributes)))
    assert found.startswith(f"app.zip/l: error: {why} [unsafe-path]")


def test_encrypted(tmp_path):
    path = write(tmp_path / "app.zip", ("a", b"b"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    assert refusal(path).startswith("app.zip/a: error: this file is encrypted [unsafe-path]")


def test_other_compression(tmp_path):
    path = tmp_path / "app.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("a", b"b" * 1000)
    assert "is neither 'stored' nor 'deflated' [unsafe-path]" in refusal(path)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("a.py", "A.py", "differ only in capitals"),
        ("a", "a/b", "a is a file and a folder at once"),
        ("a", "./a", "two files of this name"),
    ],
)
def test_collisions(tmp_path, first, second, why):
    assert why in refusal(write(tmp_path / "app.zip", (first, b""), (second, b"")))


def test_bomb(tmp_path):
    path = write(tmp_path / "app.zip", ("a", b"\0" * (archive.SMALL_TOTAL + 1)))
    assert refusal(path) == (
        f"app.zip: error: this .zip of {path.stat().st_size} bytes unpacks to 16777217 bytes "
        "[package]\n"
        "  hint: more than 100 to 1 is taken for an attack; give the folder instead\n"
    )


def test_many_small_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "SMALL_TOTAL", 1000)
    members = [(f"f{number}", b"\0" * 100_000) for number in range(5)]
    assert "unpacks to 500000 bytes" in refusal(write(tmp_path / "app.zip", *members))


def test_limits(tmp_path, monkeypatch):
    path = write(tmp_path / "app.zip", ("a", b"12"), ("b", b"34"))
    monkeypatch.setattr(safety, "MAX_FILES", 1)
    assert "there are more than 1 files" in refusal(path)
    monkeypatch.setattr(safety, "MAX_FILES", 2)
    monkeypatch.setattr(safety, "MAX_TOTAL", 3)
    assert "the files are larger" in refusal(path)


def test_an_entry_that_lies_about_its_size(tmp_path):
    """Never more than the declared size is unpacked."""
    path = write(tmp_path / "app.zip", ("a", b"x" * 1000))
    content = bytearray(path.read_bytes())
    size_at = content.index(b"PK\x01\x02") + 24
    content[size_at : size_at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    source = open_source(path, "app.zip")
    with pytest.raises(UnavailableError, match=r"app.zip/a cannot be read: Bad CRC"):
        source.read("a")
