"""Interpreters of this machine, found and copied."""

import os
import platform
import sys

import pytest

from tfapp.environment.archive import UnfitError
from tfapp.environment.interpreter import Installation, copy, fits, installations

VERSION = platform.python_version()
MINOR = "{}.{}".format(*sys.version_info)


@pytest.mark.parametrize(
    ("version", "wanted", "fitting"),
    [
        ("3.11.7", "3.11", True),
        ("3.11.7", "3.11.7", True),
        ("3.11.7", "3.1", False),
        ("3.11.17", "3.11.1", False),
        ("3.9.18", "3.10", False),
    ],
)
def test_versions(version, wanted, fitting):
    assert fits(version, wanted) == fitting


def fake(path, version, prefix, implementation="cpython"):
    """An interpreter as far as it is asked what it is."""
    told = f'{{"implementation": "{implementation}", "free_threaded": false, '
    told += f'"version": "{version}", "prefix": "{prefix}"}}'
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{told}'\n")
    path.chmod(0o755)


def test_the_running_one_comes_first_then_those_of_path_and_pyenv(tmp_path):
    """The newest release of pyenv's first; not a second time what was found before, nor what is
    another implementation, or no interpreter at all."""
    fake(tmp_path / "bin" / f"python{MINOR}", f"{MINOR}.98", "/opt/one")
    versions = tmp_path / "pyenv" / "versions"
    for release in ("9", "10", "99"):
        name = f"{MINOR}.{release}"
        fake(versions / name / "bin" / "python", name, f"/pyenv/{release}")
    fake(versions / f"{MINOR}.97" / "bin" / "python", f"{MINOR}.97", "/pypy", "pypy")
    (versions / f"{MINOR}.96").mkdir()
    fake(versions / f"{MINOR}.95" / "bin" / "python", f"{MINOR}.95", sys.base_prefix)
    environ = {"PATH": f"{tmp_path / 'bin'}:/bin:/usr/bin", "PYENV_ROOT": str(tmp_path / "pyenv")}
    found = [(one.version, one.prefix) for one in installations(MINOR, sys.executable, environ)]
    assert found == [
        (VERSION, sys.base_prefix),
        (f"{MINOR}.98", "/opt/one"),
        *((f"{MINOR}.{release}", f"/pyenv/{release}") for release in ("99", "10", "9")),
    ]
    exact = installations(f"{MINOR}.10", sys.executable, environ)
    assert [one.prefix for one in exact] == ["/pyenv/10"]


def test_without_patchelf_nothing_is_copied(tmp_path, monkeypatch):
    original = Installation(sys.executable, sys.base_prefix, VERSION)
    monkeypatch.setattr("tfapp.environment.interpreter.shutil.which", lambda *_, **__: None)
    with pytest.raises(
        UnfitError, match="cannot be made independent of its place without patchelf"
    ):
        copy(original, tmp_path, os.environ)
