"""The resources of each container, in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tfapp.contract.job import MAX, Resources
from tfapp.package.model import AppPackage, ComponentResources
from tfapp.problems import Problem


def settled(asked: Resources, maximum: Mapping[str, int]) -> Resources:
    """`asked` with the engine's largest amounts in place of MAX. KeyError when the engine gave
    none."""
    return dataclasses.replace(
        asked,
        memory=maximum["memory"] if asked.memory == MAX else asked.memory,
        vcores=maximum["vcores"] if asked.vcores == MAX else asked.vcores,
    )


def check_resources(package: AppPackage, maximum: Mapping[str, int]) -> Iterator[Problem]:
    """Problems: MAX without an amount of the engine, a label for the master alone, which Skein
    cannot express, and an application without instances."""
    for asked in (package.master, *package.resources.values()):
        yield from _check_maximum(asked, maximum)
    yield from _check_master_label(package)
    if not any(package.instances(component.name) for component in package.components):
        message = "every component has 0 instances: there is nothing to run"
        hint = "Give yarn.component.instances in the resources, or --component NAME COUNT."
        yield Problem(package.master.at, "no-instances", message, hint=hint)


def _check_maximum(asked: ComponentResources, maximum: Mapping[str, int]) -> Iterator[Problem]:
    amounts = {"memory": asked.container.memory, "vcores": asked.container.vcores}
    for name, amount in amounts.items():
        if amount == MAX and name not in maximum:
            key = f"yarn.{name}"
            message = f"{key} of {asked.name} is 'max', and no engine says how much that is"
            hint = "Give a number: MiB of memory, or a count of vcores."
            yield Problem(asked.place(key), "max-resources", message, hint=hint)


def _check_master_label(package: AppPackage) -> Iterator[Problem]:
    key, master = "yarn.label.expression", package.master
    bare = sorted(asked.name for asked in package.resources.values() if not asked.container.label)
    if master.container.label and bare:
        message = (
            f"{key} of {master.name} would also hold for {', '.join(bare)}: in Skein a component "
            "without a label of its own inherits it"
        )
        hint = f"Give each component its own {key}, or remove this one."
        yield Problem(master.place(key), "master-label", message, hint=hint)
