"""An export that no component feeds: nothing would ever publish it.

compExports: worker-host_port    in some component                      PASS
no component has worker-host_port in its compExports or appExports      FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import feeders
from tfapp.problems import Problem

CODE = "unfed-export"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the export's value."""
    for export in package.exports:
        if not feeders(package, export):
            word = f"{export.group}-{export.name}"
            yield Problem(
                export.at,
                CODE,
                f"no component feeds the export '{word}'",
                hint=f"add `compExports: {word}` to the component that does, or remove the export",
            )
