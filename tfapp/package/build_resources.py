"""resources' part of an AppPackage: what each component's containers get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfapp.contract.job import MAX, Resources
from tfapp.package.amounts import mebibytes
from tfapp.package.checked import CheckedDocument
from tfapp.package.model import MASTER_NAMES, ComponentResources
from tfapp.schema import defaults

_WINDOW = "yarn.container.failure.window"
WINDOW = {  # key -> seconds of its unit
    f"{_WINDOW}.days": 86400,
    f"{_WINDOW}.hours": 3600,
    f"{_WINDOW}.minutes": 60,
    f"{_WINDOW}.seconds": 1,
}


def build_resources(resources: CheckedDocument) -> dict[str, ComponentResources]:
    """By component, in the order of the document, without the application master. A value that a
    component does not have is that of `global`, or else the schema's default."""
    return {
        name: _component(resources, name, "component", resources.section("global"))
        for name in resources.section("components")
        if name not in MASTER_NAMES
    }


def build_master(resources: CheckedDocument) -> ComponentResources:
    """The resources of the application master: its own values or the schema's defaults, nothing of
    `global`."""
    written = resources.section("components")
    name = next((name for name in MASTER_NAMES if name in written), MASTER_NAMES[0])
    return _component(resources, name, "master", {})


def _component(
    resources: CheckedDocument, name: str, definition: str, shared: Mapping[str, Any]
) -> ComponentResources:
    own = resources.section("components", name)
    values = {**defaults("resources", definition), **shared, **own}
    return ComponentResources(
        name=name,
        instances=values.get("yarn.component.instances", 1),
        least=values.get("yarn.component.instances.min"),
        container=Resources(
            memory=MAX if values["yarn.memory"] == "max" else mebibytes(values["yarn.memory"]),
            vcores=MAX if values["yarn.vcores"] == "max" else values["yarn.vcores"],
            gpus=values.get("yarn.gpus", 0),
            label=values["yarn.label.expression"],
            nodes=_names(values.get("yarn.nodes", "")),
            racks=_names(values.get("yarn.racks", "")),
            relax_locality=values.get("yarn.relax.locality", False),
        ),
        priority=values.get("yarn.role.priority", 0),
        failure_threshold=values.get("yarn.container.failure.threshold", 0),
        failure_window=_window(own, shared),
        at=resources.key_at("components", name),
        positions={
            **{key: resources.at("global", key) for key in shared},
            **{key: resources.at("components", name, key) for key in own},
        },
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for word in text.split(",") if (name := word.strip()))


def _window(own: Mapping[str, Any], shared: Mapping[str, Any]) -> float:
    """The time in seconds in which failures count as recent: the component's, else that of
    `global`, else the schema's default. The keys for days, hours and minutes are taken from the
    same place."""
    for written in (own, shared, defaults("resources", "component")):
        given = [written[key] * seconds for key, seconds in WINDOW.items() if key in written]
        if given:
            return float(sum(given))
    raise AssertionError("the schema has a default")
