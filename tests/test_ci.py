"""CI counts a skipped test that should have run as a failure."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.readme import README

CHECK = README.parent / ".ci" / "check_skips.py"


@pytest.mark.parametrize(
    ("reason", "code", "text"),
    [
        ("this machine has no GPU", 0, ""),
        ("not today", 1, "skipped: tests.test_x.test_a: not today\n"),
    ],
)
def test_skips(tmp_path, reason, code, text):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_x" name="test_a">'
        f'<skipped type="pytest.skip" message="{reason}"/></testcase>'
        '<testcase classname="tests.test_x" name="test_b"/></testsuite></testsuites>'
    )
    done = subprocess.run(
        [sys.executable, CHECK, report], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, text, "")
