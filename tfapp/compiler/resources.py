"""What each container asks for, in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tfapp.package.model import MAX, AppPackage, ComponentResources
from tfapp.problems import Problem

LABEL = "yarn.label.expression"
_KEYS = {"memory": "yarn.memory", "vcores": "yarn.vcores"}


@dataclasses.dataclass(frozen=True)
class Amounts:
    """Of one container; `memory` in MiB."""

    memory: int
    vcores: int
    gpus: int


def amounts(asked: ComponentResources, maximum: Mapping[str, int]) -> Amounts:
    """`asked` with "max" replaced by what the engine can give. KeyError without that number."""
    return Amounts(
        memory=maximum["memory"] if asked.memory == MAX else int(asked.memory),
        vcores=maximum["vcores"] if asked.vcores == MAX else int(asked.vcores),
        gpus=asked.gpus,
    )


def check_resources(package: AppPackage, maximum: Mapping[str, int]) -> Iterator[Problem]:
    """Amounts that no engine supplied, a label that Skein cannot give to the master alone, and
    no instance at all."""
    for asked in (package.master, *package.resources.values()):
        yield from _check_maximum(asked, maximum)
    yield from _check_master_label(package)
    if not any(package.instances(component.name) for component in package.components):
        message = "every component has 0 instances: there is nothing to run"
        hint = "Give yarn.component.instances in the resources, or --component NAME COUNT."
        yield Problem(package.master.at, "no-instances", message, hint=hint)


def _check_maximum(asked: ComponentResources, maximum: Mapping[str, int]) -> Iterator[Problem]:
    for field, key in _KEYS.items():
        if getattr(asked, field) == MAX and field not in maximum:
            at = asked.positions.get(key, asked.at)
            message = f"{key} of {asked.name} is 'max', and no engine says how much that is"
            hint = "Give a number: MiB of memory, or a count of vcores."
            yield Problem(at, "max-resources", message, hint=hint)


def _check_master_label(package: AppPackage) -> Iterator[Problem]:
    label = package.master.label
    bare = sorted(asked.name for asked in package.resources.values() if not asked.label)
    if label and bare:
        at = package.master.positions.get(LABEL, package.master.at)
        message = (
            f"{LABEL} of {package.master.name} would also hold for {', '.join(bare)}: in Skein a "
            "component without a label of its own inherits it"
        )
        hint = f"Give each component its own {LABEL}, or remove this one."
        yield Problem(at, "master-label", message, hint=hint)
