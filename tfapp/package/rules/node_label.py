"""`yarn.label.expression` is not the name of a YARN node label.

Skein hands it on as it is, and YARN's scheduler then refuses the application.

    yarn.label.expression: gpu          PASS
    yarn.label.expression: gpu && ssd   FAIL
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "node-label"
NEEDS = ("resources",)
LABEL = "yarn.label.expression"

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*\Z")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the label."""
    for resources in (*package.resources.values(), package.master):
        if resources.label and not _NAME.match(resources.label):
            yield Problem(
                resources.positions.get(LABEL, resources.at),
                CODE,
                f"'{resources.label}' is not the name of a node label",
                hint="write one label: letters and digits, then also '_' and '-'",
            )
