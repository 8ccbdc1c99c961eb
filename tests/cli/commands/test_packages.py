"""`tfapp packages`, and how other commands take a package by its name."""

import pytest

from tests.cli.commands.call import call
from tests.package.packages import make_package
from tfapp.cli.flags import app_package
from tfapp.package.load import load_package
from tfapp.shipped import app_packages


def test_it_lists_each_with_a_line(tmp_path):
    code, a_shell = call(tmp_path, None, "packages")
    header, *rows = a_shell.out.text.splitlines()
    assert (code, header.split()[0]) == (0, "NAME")
    comments = {name: load_package(path).package.comment for name, path in app_packages().items()}
    assert {row.split()[0]: row.split(maxsplit=1)[1] for row in rows} == comments


@pytest.mark.parametrize("name", app_packages())
def test_a_package_is_taken_by_its_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, a_shell = call(tmp_path, None, "validate", name)
    assert code == 0, a_shell.out.text
    assert app_package(name) == app_packages()[name]


def test_what_the_user_has_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_package(tmp_path).rename("tensorflow")
    assert load_package(app_package("tensorflow")).package.source.label == "tensorflow"
    assert app_package("./tensorflo").parts == ("tensorflo",), "no package is called so"


def test_a_wrong_name_shows_the_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, a_shell = call(tmp_path, None, "validate", "tensorflo")
    assert (code, "Did you mean tensorflow?" in a_shell.out.text) == (77, True)
