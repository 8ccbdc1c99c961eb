"""An export group, or an export, that another one of the same name would hide.

Groups are looked up without regard to capitals: `Worker` and `worker` are one. A group's exports
have names of their own. `container_log_dirs` and `container_work_dirs` are always there.

    exportGroups: [{name: worker}, {name: ps}]           PASS
    exportGroups: [{name: worker}, {name: Worker}]       FAIL
    exportGroups: [{name: container_log_dirs}]           FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Export
from tfapp.problems import Problem

CODE = "export-name"
NEEDS = ("metainfo",)
RESERVED = ("container_log_dirs", "container_work_dirs")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value of the export, of a group's first one for what is the group's."""
    groups: dict[str, str] = {}
    exports: set[tuple[str, str]] = set()
    for export in package.exports:
        folded = export.group.lower()
        if folded not in groups:
            groups[folded] = export.group
            yield from _check_group(export)
        elif groups[folded] != export.group:
            message = (
                f"the export groups '{groups[folded]}' and '{export.group}' differ only in capitals"
            )
            yield Problem(export.at, CODE, message, hint="put their exports into one group")
        if (export.group, export.name) in exports:
            message = f"the group '{export.group}' has an export '{export.name}' already"
            yield Problem(export.at, CODE, message, hint="remove one of the two")
        exports.add((export.group, export.name))


def _check_group(export: Export) -> Iterator[Problem]:
    if export.group.lower() in RESERVED:
        message = f"the export group '{export.group}' is always there and not yours to fill"
        yield Problem(export.at, CODE, message, hint="choose another name")
