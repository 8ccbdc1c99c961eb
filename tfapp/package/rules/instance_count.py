"""A component has fewer or more instances than its metainfo allows.

`minInstanceCount` and `maxInstanceCount` bound `yarn.component.instances`; a component that
resources leave out has 0 instances. A component of category CLIENT can have none.

    minInstanceCount: 1    yarn.component.instances: 2     PASS
    minInstanceCount: 1    (not in resources)              FAIL
    maxInstanceCount: 1    yarn.component.instances: 2     FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component
from tfapp.problems import Position, Problem

CODE = "instance-count"
NEEDS = ("metainfo", "resources")
INSTANCES = "yarn.component.instances"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the number of instances, or at the component where resources lack it."""
    for component in package.components:
        most = component.max_instances
        if most is not None and most < component.min_instances:
            yield Problem(
                component.positions.get("maxInstanceCount", component.at),
                CODE,
                f"maxInstanceCount {most} is below minInstanceCount {component.min_instances}",
                hint="exchange the two numbers, or remove one",
            )
        else:
            yield from _check_count(package, component)


def _check_count(package: AppPackage, component: Component) -> Iterator[Problem]:
    count, most = package.instances(component.name), component.max_instances
    at = _place(package, component)
    if component.category == "CLIENT" and count:
        yield Problem(
            at,
            CODE,
            f"'{component.name}' is of category CLIENT and cannot have instances",
            hint="give it the category SLAVE or MASTER in metainfo, or set its instances to 0",
        )
    elif count < component.min_instances:
        yield Problem(
            at,
            CODE,
            f"'{component.name}' has {_instances(count)}, metainfo wants at least "
            f"{component.min_instances}",
            hint=f"set {INSTANCES} of '{component.name}' in resources",
        )
    elif most is not None and count > most:
        yield Problem(
            at,
            CODE,
            f"'{component.name}' has {_instances(count)}, metainfo allows at most {most}",
            hint=f"lower {INSTANCES} of '{component.name}'",
        )


def _place(package: AppPackage, component: Component) -> Position:
    resources = package.resources.get(component.name)
    if resources is None:
        return component.positions.get("minInstanceCount", component.at)
    return resources.positions.get(INSTANCES, resources.at)


def _instances(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"
