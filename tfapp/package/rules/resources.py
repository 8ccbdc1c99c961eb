"""Rules for the resources of components."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.contract.job import MAX
from tfapp.package.model import AppPackage
from tfapp.package.rules.rule import Found, rule
from tfapp.problems import WARNING

MAX_MEMORY = 2**31 - 1  # MiB
FEW = 64  # MiB; a Python program alone needs about as much


@rule("placement", "resources")
def placement(package: AppPackage) -> Iterator[Found]:
    """`yarn.nodes` or `yarn.racks` of a component that has a node label too: YARN refuses such a
    request, while the application runs. Reported at the nodes or racks.

        yarn.nodes: node07                                    PASS
        yarn.nodes: node07, yarn.label.expression: gpu        FAIL
    """
    for asked in package.resources.values():
        container = asked.container
        named = {"yarn.nodes": container.nodes, "yarn.racks": container.racks}
        for key in (key for key, names in named.items() if names and container.label):
            yield Found(
                asked.place(key),
                f"{key} of {asked.name} cannot be combined with its yarn.label.expression",
                "YARN takes one of the two: remove the other",
            )


@rule("resource-range", "resources")
def resource_range(package: AppPackage) -> Iterator[Found]:
    """An amount of memory that Skein's messages, which have 32 bits for it, cannot carry, or in
    which no program runs: a number without a unit is in MiB. Reported at the amount.

        yarn.memory: 2 TiB        PASS
        yarn.memory: 4096 TiB     FAIL
        yarn.memory: 2            WARNING
    """
    for asked in (*package.resources.values(), package.master):
        memory = asked.container.memory
        if memory != MAX and not 1 <= memory <= MAX_MEMORY:
            yield Found(
                asked.place("yarn.memory"),
                f"yarn.memory of '{asked.name}' is {memory} MiB, expected 1 to {MAX_MEMORY}",
                "a number without a unit is in MiB",
            )
        elif memory != MAX and memory < FEW:
            message = f"yarn.memory is {memory} MiB, too little for a program"
            hint = f"a number without a unit is in MiB; for gibibytes write '{memory} GiB'"
            yield Found(asked.place("yarn.memory"), message, hint, WARNING)


@rule("role-priority", "resources")
def role_priority(package: AppPackage) -> Iterator[Found]:
    """Two components have the same `yarn.role.priority`. It is the number by which a component
    is known, 1 or more; 0 is the application master's. Reported at the number.

        ps: {yarn.role.priority: 1}    worker: {yarn.role.priority: 2}     PASS
        ps: {yarn.role.priority: 1}    worker: {yarn.role.priority: 1}     FAIL
    """
    owners: dict[int, str] = {}
    free = 1 + max((asked.priority for asked in package.resources.values()), default=0)
    for name, asked in package.resources.items():
        owner = owners.setdefault(asked.priority, name)
        if owner != name:
            message = f"'{name}' has the yarn.role.priority of '{owner}', {asked.priority}"
            yield Found(asked.place("yarn.role.priority"), message, f"{free} is free")
