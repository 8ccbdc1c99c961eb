"""Environments made of packages. Wheels are made here, and pip is told of no other index."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tfapp.environment import build, unpacked
from tfapp.errors import UnavailableError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tensorflow", ("tensorflow",)),
        ("b==2.*, a>=1,<2 ,!=1.5", ("a>=1,<2,!=1.5", "b==2.*")),
        ("a[x,y]==1\nb\n\n", ("a[x,y]==1", "b")),
        (" , ", ()),
    ],
)
def test_requirements(text, found):
    assert build.parse_requirements(text) == found


def test_the_archive_is_named_by_what_is_in_it(tmp_path):
    def name(*requirements: str) -> str:
        return build.archive_of(requirements, tmp_path, sys.executable).name

    assert name("a==1") == name("a==1") != name("a==2")
    assert name("a==1").endswith(".tar.gz")


def test_what_tfapp_needs_is_what_it_declares():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert set(build.OWN) <= set(config["options"]["install_requires"].split())


def wheel(folder: Path, name: str) -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", "here = True\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """pip's own variables: no index, one folder of wheels."""
    monkeypatch.setattr(build, "OWN", ())
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "small")
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    return {**os.environ, **own}


def test_it_is_made_once_and_runs_elsewhere(tmp_path, environ):
    notes: list[str] = []
    folder = tmp_path / "environments"
    archive = build.build(("small==1.0",), folder, sys.executable, environ, notes.append)
    assert notes[0].startswith("makes a Python environment of small==1.0: ")
    assert any(note.startswith("pip: Installing") for note in notes)
    assert list(folder.iterdir()) == [archive]
    told = len(notes)
    assert build.build(("small==1.0",), folder, sys.executable, {}, notes.append) == archive
    assert len(notes) == told
    python, _ = unpacked.interpreter(archive, folder)
    program = "import small, sys; print(small.here, sys.prefix)"
    done = subprocess.run([*python, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", str(unpacked.folder_of(archive, folder))]


def test_pip_has_the_last_word_and_nothing_is_left(tmp_path, environ):
    folder = tmp_path / "environments"
    with pytest.raises(UnavailableError) as error:
        build.build(("no-such-package==1",), folder, sys.executable, environ, lambda _: None)
    assert "No matching distribution found for no-such-package==1" in str(error.value)
    assert list(folder.iterdir()) == []
