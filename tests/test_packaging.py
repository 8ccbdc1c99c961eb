"""The wheel holds all that tfapp reads, and an installed tfapp finds it from any folder."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.import_graph import ROOT

REPOSITORY = ROOT.parent
MAPPED = {"tfapp/schemas": "schemas", "tfapp/app_packages": "app-packages"}


def run(*words: object, cwd: Path) -> str:
    # Coverage and import settings of the calling test run are none of the child's business.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shipped_files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the source tree, as building leaves its traces in there."""
    copy = tmp_path_factory.mktemp("checkout") / "tfapp"
    copy.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("tfapp", "schemas", "app-packages"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=ignore)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, checkout, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def environment(folder: Path) -> Path:
    """The interpreter of a new virtual environment that finds this one's libraries, but has no
    tfapp: a path in a .pth file is searched, .pth files there (an editable install) are not run."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    own, outer = (
        Path(
            run(
                interpreter,
                "-c",
                "import sysconfig; print(sysconfig.get_path('purelib'))",
                cwd=folder,
            ).strip()
        )
        for interpreter in (python, sys.executable)
    )
    (own / "outer.pth").write_text(f"{outer}\n")
    return python


def install(python: Path, *what: object) -> None:
    """Installs without dependencies and without reaching for the network."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--no-deps", "--no-build-isolation", *what, cwd=python.parent)


def found_from(python: Path, cwd: Path) -> list[str]:
    """The folders in which the tfapp of `python` finds its schemas and packages; both are tried."""
    tfapp = python.parent / "tfapp"
    assert run(tfapp, "schema", "metainfo", "--format", "json", cwd=cwd).startswith("{")
    run(tfapp, "init", "app", cwd=cwd)
    run(tfapp, "validate", "app", cwd=cwd)
    code = "from tfapp import shipped as s; print(s.schemas_dir(), s.app_packages_dir(), sep='\\n')"
    return run(python, "-c", code, cwd=cwd).splitlines()


def test_the_wheel_holds_the_whole_tree(wheel, checkout):
    expected = {f"tfapp/{name}" for name in shipped_files(checkout / "tfapp")}
    for inside, beside in MAPPED.items():
        expected |= {f"{inside}/{name}" for name in shipped_files(checkout / beside)}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


def test_a_wheel_finds_what_is_inside(wheel, tmp_path):
    python = environment(tmp_path / "venv")
    install(python, wheel)
    inside = Path(run(python, "-c", "import tfapp; print(tfapp.__path__[0])", cwd=tmp_path).strip())
    assert tmp_path in inside.parents
    assert found_from(python, tmp_path) == [str(inside / "schemas"), str(inside / "app_packages")]


def test_an_editable_install_finds_what_is_beside(checkout, tmp_path):
    python = environment(tmp_path / "venv")
    install(python, "--editable", checkout)
    beside = [str(checkout / "schemas"), str(checkout / "app-packages")]
    assert found_from(python, tmp_path) == beside
    # Type checkers follow a path, and no import hook.
    (path,) = (tmp_path / "venv").glob("lib/python3*/site-packages/*tfapp*.pth")
    assert path.read_text().split() == [str(checkout)]
