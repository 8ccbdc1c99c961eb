"""`compExports` or `appExports` names an export that no export group has.

Their words are `<group>-<export>`, compared whole.

    exportGroups: [{name: worker, exports: [{name: host_port, ...}]}]
    compExports: worker-host_port      PASS
    compExports: worker-hostport       FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import did_you_mean, references
from tfapp.problems import Problem

CODE = "dangling-export"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the word."""
    known = {f"{export.group}-{export.name}" for export in package.exports}
    for component in package.components:
        for reference in references(component):
            word = f"{reference.group}-{reference.name}" if reference.name else reference.group
            if word in known:
                continue
            declared = ", ".join(sorted(known))
            otherwise = f"declared are {declared}" if known else "declare it in exportGroups"
            yield Problem(
                reference.at,
                CODE,
                f"no export group has an export for '{word}'",
                hint=did_you_mean(close_match(word, sorted(known)), otherwise),
            )
