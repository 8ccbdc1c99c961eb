"""Nothing would ever decide that the application has succeeded.

It succeeds when all instances of the components in `successPolicy` have exited with 0; without
one, when the chief has, or else all workers (or what else there is that ends). So these must have
instances, and must be able to end: `ps` and `tensorboard` run until they are stopped.

    successPolicy: {components: [worker]}    worker has 2 instances     PASS
    successPolicy: {components: [worker]}    worker has 0 instances     FAIL
    successPolicy: {components: [ps]}                                   FAIL
    no successPolicy, and only tensorboard has instances                FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "success-policy"
NEEDS = ("metainfo", "resources")
ENDLESS_ROLES = ("ps", "tensorboard")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the component's name in successPolicy, or where that would stand."""
    if not package.success:
        yield from _check_default(package)
    by_name = {component.name: component for component in package.components}
    for index, name in enumerate(package.success):
        if name not in by_name:
            continue  # unknown-component
        at = package.positions[f"successPolicy.{index}"]
        if by_name[name].role in ENDLESS_ROLES:
            message = (
                f"'{name}' decides about success, and a {by_name[name].role} never ends by itself"
            )
            yield Problem(at, CODE, message, hint="name components whose programs end")
        elif not package.instances(name):
            message = f"'{name}' decides about success and has no instances"
            hint = "give it instances in resources, or name another component"
            yield Problem(at, CODE, message, hint=hint)


def _check_default(package: AppPackage) -> Iterator[Problem]:
    running = [c for c in package.components if package.instances(c.name)]
    if running and all(component.role == "tensorboard" for component in running):
        yield Problem(
            package.positions["successPolicy"],
            CODE,
            "nothing that has instances ever ends, so the application would not either",
            hint="give a chief or a worker instances in resources",
        )
