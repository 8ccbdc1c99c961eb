from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tfapp.package.load import load_package
from tfapp.shipped import app_packages, app_packages_dir, schemas_dir


def test_the_new_package_is_valid_and_has_the_name(tmp_path):
    folder = tmp_path / "my-app"
    code, a_shell = call(tmp_path, None, "init", str(folder))
    assert code == 0, a_shell.err.text
    assert a_shell.err.text == (f"{folder} is ready; next: tfapp create my-app --appdef {folder}\n")
    loaded = load_package(folder)
    assert loaded.problems == ()
    assert loaded.package is not None
    assert loaded.package.name == "my-app"
    original = load_package(app_packages_dir() / "tensorflow").package
    assert original is not None
    assert loaded.package.components == original.components


def test_editors_find_the_schemas(tmp_path):
    call(tmp_path, None, "init", str(tmp_path / "app"))
    for document in ("metainfo", "appConfig-default", "resources-default"):
        first = (tmp_path / "app" / f"{document}.yaml").read_text().splitlines()[0]
        schema = f".schemas/{document.removesuffix('-default')}.schema.json"
        assert first == f"# yaml-language-server: $schema={schema}"
        kept = (tmp_path / "app" / schema).read_bytes()
        assert kept == (schemas_dir() / Path(schema).name).read_bytes()
    source = load_package(tmp_path / "app").package.source
    assert not any(name.startswith(".schemas") for name in source.files()), "they do not travel"


def test_a_name_of_its_own(tmp_path):
    code, a_shell = call(tmp_path, None, "init", str(tmp_path / "2nd"), "--name", "Second")
    assert code == 0, a_shell.err.text
    assert "next: tfapp create second --appdef" in a_shell.err.text


def test_a_folder_that_cannot_be_a_name(tmp_path):
    code, a_shell = call(tmp_path, None, "init", str(tmp_path / "2nd"))
    assert (code, (tmp_path / "2nd").exists()) == (2, False)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_nothing_is_overwritten(tmp_path, kind):
    if kind == "file":
        (tmp_path / "app").write_text("mine")
    else:
        (tmp_path / "app").mkdir()
        (tmp_path / "app" / "metainfo.yaml").write_text("mine")
    code, a_shell = call(tmp_path, None, "init", str(tmp_path / "app"))
    assert code == 75
    assert "exists and is not an empty folder" in a_shell.err.text


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    code, a_shell = call(tmp_path, None, "init", str(tmp_path / "file" / "app"))
    assert code == 53, a_shell.err.text


@pytest.mark.parametrize("name", app_packages())
def test_a_copy_of_each_package_is_valid(tmp_path, name):
    code, a_shell = call(tmp_path, None, "init", str(tmp_path / "app"), "--package", name)
    assert code == 0, a_shell.err.text
    loaded, original = load_package(tmp_path / "app"), load_package(app_packages()[name])
    assert loaded.problems == original.problems == ()
    assert loaded.package.components == original.package.components


def test_a_package_that_there_is_not(tmp_path):
    with pytest.raises(SystemExit):
        call(tmp_path, None, "init", str(tmp_path / "app"), "--package", "tensorflo")
    assert not (tmp_path / "app").exists()
