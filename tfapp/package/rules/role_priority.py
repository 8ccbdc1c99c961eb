"""Two components have the same `yarn.role.priority`.

It is the number by which a component is known, 1 or more; 0 is the application master's.

    ps: {yarn.role.priority: 1}    worker: {yarn.role.priority: 2}     PASS
    ps: {yarn.role.priority: 1}    worker: {yarn.role.priority: 1}     FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "role-priority"
NEEDS = ("resources",)
PRIORITY = "yarn.role.priority"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the number."""
    owners: dict[int, str] = {}
    free = 1 + max((resources.priority for resources in package.resources.values()), default=0)
    for name, resources in package.resources.items():
        owner = owners.setdefault(resources.priority, name)
        if owner != name:
            message = f"'{name}' has the {PRIORITY} of '{owner}', {resources.priority}"
            at = resources.positions.get(PRIORITY, resources.at)
            yield Problem(at, CODE, message, hint=f"{free} is free")
