import json
import shutil

import pytest

from tests.cli.commands.call import call
from tfapp.cli.commands.validate import github_report, json_report, sarif_report
from tfapp.problems import WARNING, Position, Problem, text_report
from tfapp.shipped import app_packages_dir

TENSORFLOW = app_packages_dir() / "tensorflow"
PROBLEMS = (
    Problem(Position("my app/metainfo.yaml", 3, 9), "syntax", "100% wrong", hint="Mend it."),
    Problem(Position("--option a"), "unknown-key", "no key a", WARNING),
)


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


def test_text():
    assert text_report(PROBLEMS) == (
        "my app/metainfo.yaml:3:9: error: 100% wrong [syntax]\n"
        "  Mend it.\n"
        "--option a: warning: no key a [unknown-key]"
    )


def test_json():
    assert json.loads(json_report(PROBLEMS))["findings"] == [
        {
            "file": "my app/metainfo.yaml",
            "line": 3,
            "column": 9,
            "severity": "error",
            "code": "syntax",
            "message": "100% wrong",
            "hint": "Mend it.",
        },
        {
            "file": "--option a",
            "line": None,
            "column": None,
            "severity": "warning",
            "code": "unknown-key",
            "message": "no key a",
            "hint": None,
        },
    ]


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            PROBLEMS[0],
            "::error file=my app/metainfo.yaml,line=3,col=9,title=syntax::100%25 wrong Mend it.",
        ),
        (PROBLEMS[1], "::warning file=--option a,title=unknown-key::no key a"),
        (
            Problem(Position("a,b:c", 1, 1), "x", "two\nlines"),
            "::error file=a%2Cb%3Ac,line=1,col=1,title=x::two%0Alines",
        ),
    ],
)
def test_github(problem, line):
    assert github_report((problem,)) == line


def test_sarif():
    run = json.loads(sarif_report(PROBLEMS))["runs"][0]
    assert run["tool"]["driver"]["rules"] == [{"id": "syntax"}, {"id": "unknown-key"}]
    assert run["results"] == [
        {
            "ruleId": "syntax",
            "level": "error",
            "message": {"text": "100% wrong Mend it."},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "my%20app/metainfo.yaml"},
                        "region": {"startLine": 3, "startColumn": 9},
                    }
                }
            ],
        },
        {
            "ruleId": "unknown-key",
            "level": "warning",
            "message": {"text": "no key a"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": "--option%20a"}}}],
        },
    ]
