from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.commands.call import call
from tfapp.shipped import app_packages_dir

TENSORFLOW = app_packages_dir() / "tensorflow"


@pytest.fixture
def broken(tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(TENSORFLOW, folder, ignore=shutil.ignore_patterns("__pycache__"))
    metainfo = folder / "metainfo.yaml"
    metainfo.write_text(metainfo.read_text().replace("exportGroups:", "exportGroup:"))
    return folder


def test_the_shipped_package_is_valid(tmp_path):
    code, a_shell = call(tmp_path, None, "validate", str(TENSORFLOW))
    assert (code, a_shell.out.text, a_shell.err.text) == (0, "", f"{TENSORFLOW}: valid\n")


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_program_gets_an_empty_report_too(tmp_path, form):
    code, a_shell = call(tmp_path, None, "validate", str(TENSORFLOW), "--format", form)
    found = json.loads(a_shell.out.text)
    assert code == 0
    assert (found["findings"] if form == "json" else found["runs"][0]["results"]) == []


def test_findings_have_places(tmp_path, broken):
    code, a_shell = call(tmp_path, None, "validate", str(broken), "--format", "json")
    assert code == 77
    found = json.loads(a_shell.out.text)["findings"]
    line = (broken / "metainfo.yaml").read_text().splitlines().index("  exportGroup:") + 1
    assert (found[0]["file"], found[0]["line"], found[0]["column"]) == (
        f"{broken}/metainfo.yaml",
        line,
        3,
    )
    assert "exportGroups" in found[0]["message"] + found[0]["hint"]


def test_several_packages_are_all_looked_at(tmp_path, broken):
    code, a_shell = call(tmp_path, None, "validate", str(broken), str(TENSORFLOW))
    assert code == 77
    assert a_shell.err.text.splitlines()[-1] == f"{TENSORFLOW}: valid"


def test_no_package_at_all(tmp_path):
    code, a_shell = call(tmp_path, None, "validate", str(tmp_path / "none"))
    assert code == 77
    assert f"{tmp_path}/none: error: there is no package here" in a_shell.out.text


def test_a_missing_file_to_ship_is_a_finding(tmp_path):
    words = ("validate", str(TENSORFLOW), "--files", "none.py", "--format", "json")
    code, a_shell = call(tmp_path, None, *words)
    assert code == 77
    assert [row["file"] for row in json.loads(a_shell.out.text)["findings"]] == ["none.py"]
