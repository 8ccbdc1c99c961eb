"""The path of a script that leads out of the package.

Scripts are named by a relative path, with `/`, without `..`: a component's
`commandScript.script` below the package, `site.global.user.scripts.entry` below `files/`.

    script: scripts/tensorflow.py      PASS
    script: ../tensorflow.py           FAIL
    script: /opt/tensorflow.py         FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values
from tfapp.package.safety import unsafe_reason
from tfapp.problems import Position, Problem

CODE = "unsafe-path"
NEEDS = ("metainfo",)
ENTRY = "site.global.user.scripts.entry"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the path."""
    for component in package.components:
        if reason := unsafe_reason(component.script):
            at = component.positions.get("script", component.at)
            message = f"the script '{component.script}' {reason}"
            yield Problem(at, CODE, message, hint="write a path inside the package")
    for key, value in all_values(package):
        if key == ENTRY and (reason := unsafe_reason(value.text)):
            message = f"the entry script '{value.text}' {reason}"
            hint = "write a path below files/, and ship the script with --files"
            yield Problem(value.at, CODE, message, hint=hint)
    for name in package.user_files:
        if reason := unsafe_reason(name):
            message = f"the user's file '{name}' {reason}"
            yield Problem(Position("--files"), CODE, message, hint="ship it under another name")
