"""The wheel and the sdist of this checkout, and environments in which the wheel is installed. They
find this interpreter's libraries by a .pth file. The .pth file of an editable install, which lies
there, is not read: they have no tfapp but the wheel's."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests import programs, python_environments
from tests.import_graph import ROOT

REPOSITORY = ROOT.parent
PARTS = ("tfapp", "schemas", "app-packages")  # folders of which a wheel is made
# The last release, with which another version's applications and commands are tried out.
RELEASED = "3c7eb476708e"  # what is to be 0.1.0, until there is a tag
_FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(*words: object, cwd: Path, **environ: str) -> str:
    """The standard output of a command that must succeed. It does not see the checkout."""
    how = {"cwd": cwd, "environ": environ, "stdin": subprocess.DEVNULL}
    done = programs.run(*words, without="PYTHONPATH", **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_checkout(folder: Path) -> Path:
    """What is needed to build, because a build leaves its traces there."""
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in PARTS:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignore)
    for name in _FILES:
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def build(checkout: Path, folder: Path) -> tuple[Path, Path]:
    """Makes the sdist, and of the sdist the wheel, in `folder`. Without the network."""
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, checkout)
    run(*command, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def install(python: Path, *what: object) -> None:
    """Installs without dependencies and without the network."""
    command = (*_PIP, "--python", python, "install", "--no-deps", "--no-build-isolation", *what)
    run(*command, cwd=python.parent)


def installed(folder: Path) -> Path:
    """The interpreter of a new environment in `folder`, which exists, with the wheel of this
    checkout."""
    return _with_wheel(folder, copy_checkout(folder / "checkout"))


def _with_wheel(folder: Path, checkout: Path) -> Path:
    (folder / "dist").mkdir()
    wheel, _ = build(checkout, folder / "dist")
    shutil.rmtree(checkout)
    python = python_environments.make(folder / "environment") / "bin" / "python"
    install(python, wheel)
    return python


def released(folder: Path) -> Path:
    """The interpreter of a new environment in `folder` with the tfapp of RELEASED."""
    checkout = folder / "checkout"
    checkout.mkdir()
    git = ["git", "-C", str(REPOSITORY), "archive", "--format", "tar", RELEASED, *PARTS, *_FILES]
    archive = subprocess.run(git, capture_output=True, timeout=60)
    if archive.returncode:
        pytest.skip(f"this machine has no commit {RELEASED}, as in a shallow clone")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(checkout)
    return _with_wheel(folder, checkout)
