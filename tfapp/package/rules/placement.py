"""`yarn.nodes` or `yarn.racks` of a component that has a node label too.

YARN refuses such a request, while the application runs.

    yarn.nodes: node07                                    PASS
    yarn.nodes: node07, yarn.label.expression: gpu        FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "placement"
NEEDS = ("resources",)
LABEL = "yarn.label.expression"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the nodes or racks."""
    for resources in package.resources.values():
        named = {"yarn.nodes": resources.nodes, "yarn.racks": resources.racks}
        for key in (key for key, names in named.items() if names and resources.label):
            yield Problem(
                resources.positions.get(key, resources.at),
                CODE,
                f"{key} of {resources.name} cannot be combined with its {LABEL}",
                hint="YARN takes one of the two: remove the other",
            )
