"""Fails when a test was skipped for another reason than what this machine lacks.

python .ci/check_skips.py REPORT.xml, as written by pytest --junitxml. A test that needs what not
every machine has skips with a reason that begins with "this machine has no".
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree

ALLOWED = "this machine has no "


def main(report: str) -> int:
    """Prints each test that should have run. Returns 1 if there are any, else 0."""
    found = 0
    for case in ElementTree.parse(report).iter("testcase"):
        for skipped in case.iter("skipped"):
            reason = skipped.get("message", "")
            if not reason.startswith(ALLOWED):
                print(f"skipped: {case.get('classname')}.{case.get('name')}: {reason}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
