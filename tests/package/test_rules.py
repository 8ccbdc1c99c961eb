"""Every rule by its fixtures: rules/<code>/<case> is laid over rules/base, and all that is found
in the result must be what expected.txt says. A new case is a new folder."""

from __future__ import annotations

import pytest

from tests.package.packages import BASE, RULES, make_package, report
from tfapp.package.load import load_package
from tfapp.package.rules import RULES as RULE_TABLE

CASES = sorted(path.parent for path in RULES.glob("*/*/expected.txt"))


def test_base_has_no_findings():
    assert load_package(BASE).problems == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_case(case, tmp_path):
    folder = make_package(tmp_path, over=case)
    found = report(load_package(folder).problems, folder)
    assert found == (case / "expected.txt").read_text()


@pytest.mark.parametrize("rule", RULE_TABLE, ids=lambda rule: rule.CODE)
def test_rule_has_a_manual_page_and_cases(rule):
    cases = [case for case in CASES if case.parent.name == rule.CODE]
    assert any(f"[{rule.CODE}]" in (case / "expected.txt").read_text() for case in cases)
    assert rule.__doc__ and "PASS" in rule.__doc__
    assert "FAIL" in rule.__doc__ or "WARNING" in rule.__doc__
    assert rule.__name__.rpartition(".")[2] == rule.CODE.replace("-", "_")
    assert set(rule.NEEDS) <= {"metainfo", "appConfig", "resources"}


def test_no_folder_without_a_rule():
    codes = {rule.CODE for rule in RULE_TABLE}
    assert {case.parent.name for case in CASES} == codes
