"""The wheel and the sdist hold all that tfapp reads, and an installed tfapp does from any folder
what the checkout does."""

import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import python_environments, wheel
from tests.cli.test_completion import BASH
from tests.readme import blocks
from tests.wheel import REPOSITORY, run

MAPPED = {"tfapp/schemas": "schemas", "tfapp/app_packages": "app-packages"}


def shipped_files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the source tree, as building leaves its traces in there."""
    return wheel.copy_checkout(tmp_path_factory.mktemp("checkout") / "tfapp")


@pytest.fixture(scope="module")
def built(checkout, tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    return wheel.build(checkout, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The bin folder of an environment with the wheel."""
    environment = python_environments.make(tmp_path_factory.mktemp("installed") / "environment")
    wheel.install(environment / "bin" / "python", built[0])
    return environment / "bin"


def found_from(folder: Path, cwd: Path) -> list[str]:
    """The folders in which the tfapp in `folder`, a bin folder, finds its schemas and packages;
    both are tried."""
    tfapp = folder / "tfapp"
    assert run(tfapp, "schema", "metainfo", "--format", "json", cwd=cwd).startswith("{")
    run(tfapp, "init", "app", cwd=cwd)
    run(tfapp, "validate", "app", cwd=cwd)
    code = "from tfapp import shipped as s; print(s.schemas_dir(), s.app_packages_dir(), sep='\\n')"
    return run(folder / "python", "-c", code, cwd=cwd).splitlines()


def test_the_wheel_holds_the_whole_tree(built, checkout):
    expected = {f"tfapp/{name}" for name in shipped_files(checkout / "tfapp")}
    for inside, beside in MAPPED.items():
        expected |= {f"{inside}/{name}" for name in shipped_files(checkout / beside)}
    names = {name for name in zipfile.ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    assert names == expected


def test_the_sdist_holds_what_a_wheel_is_made_of(built, checkout):
    with tarfile.open(built[1]) as archive:
        names = {one.name.partition("/")[2] for one in archive if one.isfile()}
    about = {name for name in names if name == "PKG-INFO" or ".egg-info/" in name}
    assert names - about == shipped_files(checkout) - about


def test_a_wheel_finds_what_is_inside(installed, tmp_path):
    code = "import tfapp; print(tfapp.__path__[0])"
    inside = Path(run(installed / "python", "-c", code, cwd=tmp_path).strip())
    assert installed.parent in inside.parents
    found = found_from(installed, tmp_path)
    assert found == [str(inside / "schemas"), str(inside / "app_packages")]


def test_an_editable_install_finds_what_is_beside(checkout, tmp_path):
    environment = python_environments.make(tmp_path / "environment")
    wheel.install(environment / "bin" / "python", "--editable", checkout)
    beside = [str(checkout / "schemas"), str(checkout / "app-packages")]
    assert found_from(environment / "bin", tmp_path) == beside
    # Type checkers follow a path, and no import hook.
    (path,) = environment.glob("lib/python3*/site-packages/*tfapp*.pth")
    assert path.read_text().split() == [str(checkout)]


def test_its_commands(installed, tmp_path, tfapp_home):
    """Beside those of `found_from`."""
    tfapp = installed / "tfapp"
    lines = run(tfapp, "--version", cwd=tmp_path).splitlines()
    assert lines[0].split() == ["tfapp", built_version()]
    findings = json.loads(run(tfapp, "doctor", "--format", "json", cwd=tmp_path))["findings"]
    assert {f["subject"]: f["level"] for f in findings}["tensorflow"] == "ok"
    on_path = f"{installed}:{os.environ['PATH']}"
    assert run("bash", "-c", BASH, cwd=tmp_path, PATH=on_path).split()[0] == "diagnostics"
    assert list(tmp_path.iterdir()) == []


def built_version() -> str:
    """The one place where it stands."""
    namespace: dict[str, str] = {}
    text = (REPOSITORY / "tfapp" / "__init__.py").read_text(encoding="utf-8")
    exec(next(line for line in text.splitlines() if line.startswith("__version__")), namespace)
    return namespace["__version__"]


@pytest.mark.trains
def test_the_first_command_of_the_readme(installed, tmp_path, tfapp_home):
    """It trains, in a folder with the package and the example alone."""
    shutil.copytree(REPOSITORY / "app-packages", tmp_path / "app-packages")
    example = "examples/digits-multiworker"
    shutil.copytree(REPOSITORY / example, tmp_path / example)
    program = blocks()[0].splitlines()[-1]
    assert program.startswith(".venv/bin/tfapp create digits ")
    on_path = f"{installed}:{os.environ['PATH']}"
    command = program.removeprefix(".venv/bin/") + " 2>&1"
    lines = run("bash", "-c", command, cwd=tmp_path, PATH=on_path).splitlines()
    assert any("test accuracy" in line for line in lines)
    assert "digits: Succeeded" in lines[-1]
