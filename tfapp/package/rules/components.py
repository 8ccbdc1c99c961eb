"""The names of components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfapp.package.model import MASTER_NAMES, AppPackage
from tfapp.package.rules.rule import Found, component_names, did_you_mean, rule
from tfapp.problems import Position

UNKNOWN_COMPONENT = "unknown-component"


@rule("duplicate-component", "metainfo")
def duplicate_component(package: AppPackage) -> Iterator[Found]:
    """Two components of metainfo have the same name, or names that differ only in capitals.

    A component's name is its key in resources and appConfig, and `${PS_HOST}` means `ps`.
    Reported at the second and every later one.

        components: [{name: ps, ...}, {name: worker, ...}]      PASS
        components: [{name: ps, ...}, {name: PS, ...}]          FAIL
    """
    seen: dict[str, str] = {}
    for component in package.components:
        name = component.name
        first = seen.setdefault(name.lower(), name)
        if component is package.component(first):
            continue
        message = f"the components '{first}' and '{name}' differ only in capitals"
        if first == name:
            message = f"a component '{name}' is declared above already"
        yield Found(component.at, message, "give each component a name of its own")


@rule(UNKNOWN_COMPONENT, "metainfo")
def unknown_component(package: AppPackage) -> Iterator[Found]:
    """A component is named that metainfo does not declare: in resources, in appConfig, in
    commandOrders, in successPolicy or in failurePolicy. The other way round is no error: a
    component that resources leave out has 0 instances. Reported at each such name.

        metainfo: components: [{name: worker}]    resources: components: {worker: ...}     PASS
        metainfo: components: [{name: worker}]    resources: components: {workers: ...}    FAIL
    """
    known = component_names(package)
    for name, at in _named(package):
        if name not in known:
            yield not_in_metainfo(name, at, known)


def not_in_metainfo(name: str, at: Position, known: Sequence[str]) -> Found:
    """The finding for a component that is not among metainfo's, `known`."""
    hint = did_you_mean(name, known, f"metainfo's components are {', '.join(known)}")
    return Found(at, f"metainfo has no component '{name}'", hint)


def _named(package: AppPackage) -> Iterator[tuple[str, Position]]:
    for name, resources in package.resources.items():
        yield name, resources.at
    for name, at in package.config.positions.items():
        if name not in MASTER_NAMES:
            yield name, at
    for order in package.command_orders:
        for name in (order.component, *order.requires):
            yield name, order.at
    for index, name in enumerate(package.success):
        yield name.partition("/")[0], package.positions[f"successPolicy.{index}"]
    for number, policy in enumerate(package.failure.rules):
        for index, name in enumerate(policy.components):
            yield name, package.positions[f"failurePolicy.{number}.{index}"]
