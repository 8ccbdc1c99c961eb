"""Two components of metainfo have the same name, or names that differ only in capitals.

A component's name is its key in resources and appConfig, and `${PS_HOST}` means `ps`.

    components: [{name: ps, ...}, {name: worker, ...}]      PASS
    components: [{name: ps, ...}, {name: PS, ...}]          FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "duplicate-component"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports the second and every later one."""
    seen: dict[str, str] = {}
    for component in package.components:
        folded, name = component.name.lower(), component.name
        if folded not in seen:
            seen[folded] = name
            continue
        message = f"the components '{seen[folded]}' and '{name}' differ only in capitals"
        if seen[folded] == name:
            message = f"a component '{name}' is declared above already"
        yield Problem(component.at, CODE, message, hint="give each component a name of its own")
