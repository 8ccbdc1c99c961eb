"""`tfapp start` says when the files have changed that the application was made from."""

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.launch import sources
from tfapp.shipped import app_packages_dir

ENDED = status("SUCCEEDED", verdict=SUCCESS)
HINT = "  `tfapp create` and `tfapp run` with --replace take the files of now.\n"


@pytest.fixture
def engine(tmp_path):
    return PlayedEngine(tmp_path / "played", [ENDED])


@pytest.fixture
def package(tmp_path, engine) -> Path:
    """One that an application was made from, with a script of --files."""
    folder = tmp_path / "my-app"
    shutil.copytree(app_packages_dir() / "tensorflow", folder)
    (tmp_path / "more.py").write_text("print(1)\n")
    words = ("create", "app", "--appdef", "my-app", "--files", "more.py")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        code, a_shell = call(tmp_path, engine, *words)
    finally:
        os.chdir(here)
    assert code == 0, a_shell.err.text
    return folder


def start(tmp_path, engine) -> str:
    """The warning, "" for none."""
    code, a_shell = call(tmp_path, engine, "start", "app")
    assert (code, engine.calls[-1]) == (0, "start")
    before, warned, after = a_shell.err.text.partition("warning: ")
    return warned + after.partition(HINT)[0] + HINT if warned else ""


def test_nothing_has_changed(tmp_path, engine, package):
    assert start(tmp_path, engine) == ""
    for path in (package / "metainfo.yaml", tmp_path / "more.py"):
        os.utime(path, ns=(1, 1))  # as `git checkout` may do
    assert start(tmp_path, engine) == ""


def test_files_that_have_changed_are_named(tmp_path, engine, package):
    (tmp_path / "more.py").write_text("print(2)\n")
    changed = "has changed since app was made; it runs as it was\n"
    assert start(tmp_path, engine) == f"warning: more.py {changed}{HINT}"
    (package / "metainfo.yaml").unlink()
    told = "more.py, my-app/metainfo.yaml have changed since app was made; it runs as it was\n"
    assert start(tmp_path, engine) == f"warning: {told}{HINT}"


def test_of_many_the_first_are_named(tmp_path, engine, package):
    shutil.rmtree(package)
    named, _, more = start(tmp_path, engine).partition(" and ")
    assert named.count(", ") == 2
    assert more.partition(" ")[2].startswith("more have changed since app was made")


def test_a_large_file_is_compared_by_its_time(tmp_path, engine, package, monkeypatch):
    monkeypatch.setattr(sources, "HASHED", 3)
    call(tmp_path, engine, "create", "app", "--appdef", str(package))
    os.utime(package / "metainfo.yaml", ns=(1, 1))
    assert start(tmp_path, engine).startswith("warning: my-app/metainfo.yaml has changed")


def test_another_application_of_this_name_is_not_meant(tmp_path, engine, package):
    (tmp_path / "more.py").write_text("print(2)\n")
    place = tmp_path / "home" / "sources" / "local" / "app.json"
    place.write_text(place.read_text().replace("application_1_0001", "application_0_0001"))
    assert start(tmp_path, engine) == ""


def test_a_record_that_is_damaged_does_not_matter(tmp_path, engine, package):
    (tmp_path / "more.py").write_text("print(2)\n")
    (tmp_path / "home" / "sources" / "local" / "app.json").write_text("[")
    assert start(tmp_path, engine) == ""


def test_destroy_forgets_it(tmp_path, engine, package):
    place = tmp_path / "home" / "sources" / "local" / "app.json"
    assert place.exists()
    assert call(tmp_path, engine, "destroy", "app")[0] == 0
    assert not place.exists()


def test_the_package_of_tfapp_itself_is_not_watched(tmp_path, engine):
    (tmp_path / "train.py").write_text("print(1)\n")
    code, a_shell = call(tmp_path, engine, "run", str(tmp_path / "train.py"), "--name", "app")
    assert code == 0, a_shell.err.text
    text = (tmp_path / "home" / "sources" / "local" / "app.json").read_text()
    assert "train.py" in text and "metainfo" not in text


@pytest.mark.parametrize(
    ("saved", "sees", "told"),
    [
        (("backup/ckpt",), True, "it may go on from what earlier runs have saved in HERE\n"),
        ((), True, "it begins anew: earlier runs have left nothing in HERE\n"),
        (("backup/ckpt",), False, ""),
    ],
)
def test_it_is_told_whether_there_is_something_to_go_on_from(tmp_path, engine, saved, sees, told):
    folder = engine.folder / "checkpoints"
    for name in saved:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    engine.sees_home = sees
    code, a_shell = call(tmp_path, engine, "start", "app")
    said = a_shell.err.text.replace(str(folder), "HERE")
    assert (code, f"app: {told}" in said) == (0, True)
    assert told or "earlier runs" not in said
