from __future__ import annotations

import json

import pytest

from tfapp.cli.reports import github_report, json_report, sarif_report
from tfapp.problems import WARNING, Position, Problem, text_report

PROBLEMS = (
    Problem(Position("my app/metainfo.yaml", 3, 9), "syntax", "100% wrong", hint="Mend it."),
    Problem(Position("--option a"), "unknown-key", "no key a", WARNING),
)


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
