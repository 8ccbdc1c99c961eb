"""The name of a component that already names something else, or is too long.

Skein names log files by it. `appmaster`, `slider-appmaster` and `master` are the application
master, `coordinator` is the process beside it: `tfapp logs NAME coordinator` shows its log.

    name: worker            PASS
    name: coordinator       FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "component-name"
NEEDS = ("metainfo",)
RESERVED = ("appmaster", "slider-appmaster", "master", "coordinator")
MAX_LENGTH = 100  # characters; file names are made from it


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the name."""
    for component in package.components:
        name = component.name
        if name.lower() in RESERVED:
            message = f"a component cannot be called '{name}': every application has one already"
            yield Problem(component.at, CODE, message, hint="choose another name")
        elif len(name) > MAX_LENGTH:
            message = f"the component's name has {len(name)} characters"
            hint = f"choose one of {MAX_LENGTH} or fewer"
            yield Problem(component.at, CODE, message, hint=hint)
