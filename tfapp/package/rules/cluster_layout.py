"""Instances that do not make a TensorFlow cluster.

A cluster has at most one chief and at most one evaluator, over all components of the role; `ps`
serve workers or a chief. `ps` with workers and without a chief is the layout of a program that
elects one itself (worker 0): a warning. An application without any instance does nothing.

    chief 1, worker 2, ps 1     PASS
    worker 2                    PASS
    worker 2, ps 1              WARNING
    chief 2                     FAIL
    evaluator 2                 FAIL
    ps 2                        FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component
from tfapp.problems import WARNING, Position, Problem

CODE = "cluster-layout"
NEEDS = ("metainfo", "resources")
INSTANCES = "yarn.component.instances"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the number of instances of the component that is one too many or alone."""
    if not any(package.instances(component.name) for component in package.components):
        yield Problem(
            package.positions["resources"],
            CODE,
            "no component has an instance, so nothing would run",
            hint=f"set {INSTANCES} of a component",
        )
    yield from _check_single(package, "chief", "a second one would train on its own")
    yield from _check_single(package, "evaluator", "TensorFlow knows one evaluator")
    yield from _check_ps(package)


def _check_single(package: AppPackage, role: str, why: str) -> Iterator[Problem]:
    running = _running(package, role)
    total = sum(package.instances(component.name) for component in running)
    if total > 1:
        names = ", ".join(component.name for component in running)
        message = f"there are {total} instances of role {role} ({names}), expected at most 1"
        yield Problem(_place(package, running[-1]), CODE, message, hint=why)


def _check_ps(package: AppPackage) -> Iterator[Problem]:
    servers = _running(package, "ps")
    if not servers or _running(package, "chief"):
        return
    at = _place(package, servers[0])
    name = servers[0].name
    if not _running(package, "worker"):
        message = f"'{name}' has instances, but there is neither a chief nor a worker to serve"
        yield Problem(at, CODE, message, hint="add a chief, or workers")
        return
    message = f"'{name}' serves workers without a chief"
    hint = "tf.distribute's ParameterServerStrategy needs a chief; without one, the program "
    hint += "itself must let worker 0 be it"
    yield Problem(at, CODE, message, WARNING, hint)


def _running(package: AppPackage, role: str) -> list[Component]:
    return [
        component
        for component in package.components
        if component.role == role and package.instances(component.name)
    ]


def _place(package: AppPackage, component: Component) -> Position:
    resources = package.resources[component.name]
    return resources.positions.get(INSTANCES, resources.at)
