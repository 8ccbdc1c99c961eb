"""A package in a folder: what is in it, and what keeps it from being shipped."""

import os
import socket

import pytest

from tests.package.packages import report
from tfapp.errors import InvalidPackageError, NotFoundError
from tfapp.package import safety
from tfapp.package.source import open_source


def refusal(root):
    with pytest.raises(InvalidPackageError) as caught:
        open_source(root, str(root))
    return report(caught.value.problems, root.parent)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "app"
    (folder / "scripts").mkdir(parents=True)
    (folder / "metainfo.yaml").write_text("a: 1")
    (folder / "scripts" / "run.sh").write_text("true")
    (folder / "scripts" / "run.sh").chmod(0o755)
    return folder


def test_files_of_a_folder(root):
    (root / "scripts" / "__pycache__").mkdir()
    (root / "scripts" / "__pycache__" / "run.pyc").write_text("")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("")
    (root / "link.yaml").symlink_to("metainfo.yaml")
    source = open_source(root, "app")
    assert source.label == "app"
    assert source.files() == ("link.yaml", "metainfo.yaml", "scripts/run.sh")
    assert source.read("metainfo.yaml") == source.read("link.yaml") == b"a: 1"
    assert [source.executable(name) for name in source.files()] == [False, False, True]
    for path in ("gone", "../app/metainfo.yaml", "scripts"):
        with pytest.raises(NotFoundError, match="has no file"):
            source.read(path)


def test_no_package(tmp_path):
    assert refusal(tmp_path / "gone") == (
        "gone: error: there is no package here [package]\n"
        "  hint: give the folder of an app package, or a .zip of one; "
        "`tfapp init` makes a new one\n"
    )


def test_a_document_is_no_package(tmp_path):
    (tmp_path / "metainfo.yaml").write_text("")
    assert refusal(tmp_path / "metainfo.yaml").startswith(
        "metainfo.yaml: error: this is a document, not a package [package]\n"
        "  hint: give the folder that it is in: "
    )


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "../../app/../outside", "../.."])
def test_link_out(root, target):
    (root.parent / "outside").write_text("secret")
    (root / "scripts" / "l").symlink_to(target if target != "../outside" else "../../outside")
    assert "app/scripts/l: error: this link leads " in refusal(root)


@pytest.mark.parametrize("target", ["scripts", "."])
def test_link_to_a_folder(root, target):
    (root / "l").symlink_to(target)
    assert refusal(root) == (
        "app/l: error: this is a link to a folder [unsafe-path]\n"
        "  hint: put the folder itself in its place\n"
    )


@pytest.mark.parametrize("target", ["gone", "l"], ids=["gone", "itself"])
def test_link_to_nothing(root, target):
    (root / "l").symlink_to(target)
    assert refusal(root) == (
        "app/l: error: this link leads to nothing [unsafe-path]\n  hint: remove it\n"
    )


def test_pipe(root):
    os.mkfifo(root / "pipe")
    assert refusal(root) == (
        "app/pipe: error: this is not a regular file [unsafe-path]\n  hint: remove it\n"
    )


def test_socket(root, monkeypatch):
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert "app/s: error: this is not a regular file" in refusal(root)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\nb", "has a control character in it"),
        ("a\\b", "has a backslash in it"),
        ("C:x", "is an absolute path"),
        (os.fsdecode(b"a\xff"), "is not UTF-8"),
    ],
)
def test_name(root, name, why):
    (root / name).write_text("")
    assert f"app: error: the file name {name!r} {why} [unsafe-path]" in refusal(root)


@pytest.mark.parametrize(
    ("first", "second"),
    [("files/A.py", "files/a.py"), ("files/x.py", "FILES/y.py"), ("caf\u00e9", "cafe\u0301")],
)
def test_names_that_another_system_takes_for_one(root, first, second):
    for name in (first, second):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    assert "differ only in capitals or accents [unsafe-path]" in refusal(root)


def test_limits(root, monkeypatch):
    monkeypatch.setattr(safety, "MAX_FILES", 1)
    assert "app: error: there are more than 1 files [package]" in refusal(root)
    monkeypatch.setattr(safety, "MAX_FILES", 10)
    monkeypatch.setattr(safety, "MAX_TOTAL", 7)
    assert "the files are larger than 0 GiB [package]" in refusal(root)
