"""A component is named that metainfo does not declare.

It may be named in resources, in appConfig, in commandOrders, in successPolicy and in
failurePolicy. The other way round is no error: a component that resources leave out has 0
instances.

    metainfo: components: [{name: worker}]    resources: components: {worker: ...}     PASS
    metainfo: components: [{name: worker}]    resources: components: {workers: ...}    FAIL
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfapp.close_match import close_match
from tfapp.package.model import MASTER_NAMES, AppPackage
from tfapp.package.rules.written import component_names, did_you_mean
from tfapp.problems import Position, Problem

CODE = "unknown-component"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports each place that names a component which is not there."""
    known = component_names(package)
    for name, at in _named(package):
        if name not in known:
            yield unknown_component(name, at, known)


def unknown_component(name: str, at: Position, known: Sequence[str]) -> Problem:
    """What is to be said of a component that is not among metainfo's, `known`."""
    return Problem(
        at,
        CODE,
        f"metainfo has no component '{name}'",
        hint=did_you_mean(
            close_match(name, known), f"metainfo's components are {', '.join(known)}"
        ),
    )


def _named(package: AppPackage) -> Iterator[tuple[str, Position]]:
    for name, resources in package.resources.items():
        yield name, resources.at
    for name, at in package.config.positions.items():
        if name not in MASTER_NAMES:
            yield name, at
    for order in package.command_orders:
        yield order.component, order.at
        for required in order.requires:
            yield required, order.at
    for index, name in enumerate(package.success):
        yield name, package.positions[f"successPolicy.{index}"]
    for number, rule in enumerate(package.failure.rules):
        for index, name in enumerate(rule.components):
            yield name, package.positions[f"failurePolicy.{number}.{index}"]
