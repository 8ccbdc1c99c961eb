"""A component's script is not in the package.

commandScript: {script: scripts/tensorflow.py}     scripts/tensorflow.py is there     PASS
commandScript: {script: scripts/tensorflow.py}     it is not                          FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import did_you_mean
from tfapp.package.safety import unsafe_reason
from tfapp.problems import Problem

CODE = "missing-script"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the path."""
    files = package.source.files()
    for component in package.components:
        script = component.script
        if script in files or unsafe_reason(script):
            continue
        if f"package/{script}" in files:
            hint = f"it is at package/{script}; scripts stand in scripts/, beside metainfo"
        else:
            scripts = [name for name in files if name.endswith(".py")]
            hint = did_you_mean(close_match(script, scripts), "put it there, with a class Script")
        yield Problem(
            component.positions.get("script", component.at),
            CODE,
            f"the package has no file '{script}'",
            hint=hint,
        )
