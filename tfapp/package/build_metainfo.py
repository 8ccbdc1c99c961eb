"""metainfo's part of an AppPackage: components, exports, start orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfapp.contract.job import FailurePolicy, FailureRule
from tfapp.contract.names import ROLES
from tfapp.package.checked import CheckedDocument
from tfapp.package.model import CommandOrder, Component, Export, ExportRef
from tfapp.problems import Position
from tfapp.schema import defaults

DEFAULT_TIMEOUT = 600.0  # seconds; also what Slider's 0 means
# Names of Slider's packages that are another role than their name says.
ROLE_OF_NAME = {"chiefworker": "chief"}

_POSITIONS = {
    "category": ("category",),
    "maxInstanceCount": ("maxInstanceCount",),
    "minInstanceCount": ("minInstanceCount",),
    "role": ("role",),
    "script": ("commandScript", "script"),
}


def build_components(
    metainfo: CheckedDocument, exports: tuple[Export, ...]
) -> tuple[Component, ...]:
    """All components, in the order of metainfo."""
    written = metainfo.section("application").get("components", ())
    return tuple(
        _component(metainfo, index, component, exports) for index, component in enumerate(written)
    )


def _component(
    metainfo: CheckedDocument, index: int, written: Mapping[str, Any], exports: tuple[Export, ...]
) -> Component:
    path = ("application", "components", index)
    script = written["commandScript"]
    return Component(
        name=written["name"],
        role=written.get("role") or default_role(written["name"]),
        category=written.get("category", "MASTER"),
        script=script["script"],
        script_timeout=float(script.get("timeout") or DEFAULT_TIMEOUT),
        comp_exports=_export_refs(metainfo, (*path, "compExports"), written, exports),
        app_exports=_export_refs(metainfo, (*path, "appExports"), written, exports),
        min_instances=written.get("minInstanceCount", 0),
        max_instances=written.get("maxInstanceCount"),
        docker_containers=tuple(written.get("dockerContainers", ())),
        at=metainfo.at(*path, "name"),
        positions={
            **{name: metainfo.at(*path, *below) for name, below in _POSITIONS.items()},
            **_docker_positions(metainfo, path, written),
        },
    )


def _docker_positions(
    metainfo: CheckedDocument, path: tuple[Any, ...], written: Mapping[str, Any]
) -> dict[str, Position]:
    """ "dockerContainers.0.options" and so on."""
    return {
        f"dockerContainers.{index}.{field}": metainfo.at(*path, "dockerContainers", index, field)
        for index, container in enumerate(written.get("dockerContainers", ()))
        for field in container
    }


def default_role(name: str) -> str:
    """The role of a component that does not declare one."""
    if name in ROLES:
        return name
    return ROLE_OF_NAME.get(name, "other")


def _export_refs(
    metainfo: CheckedDocument,
    path: tuple[Any, ...],
    written: Mapping[str, Any],
    exports: tuple[Export, ...],
) -> tuple[ExportRef, ...]:
    words = tuple(word.strip() for word in written.get(path[-1], "").split(","))
    words = tuple(word for word in words if word)
    positions = metainfo.locator.parts(metainfo.at(*path), words)
    return tuple(_export_ref(word, at, exports) for word, at in zip(words, positions))


def _export_ref(word: str, at: Position, exports: tuple[Export, ...]) -> ExportRef:
    """Finds the group and the export of a word. Whole names are compared, because a name may have a
    '-' in it."""
    for export in exports:
        if word == f"{export.group}-{export.name}":
            return ExportRef(export.group, export.name, at)
    group, _, name = word.partition("-")
    return ExportRef(group, name, at)


def build_exports(metainfo: CheckedDocument) -> tuple[Export, ...]:
    """All exports of all groups, in the order of metainfo."""
    found = []
    groups = metainfo.section("application").get("exportGroups", ())
    for group_index, group in enumerate(groups):
        for index, export in enumerate(group["exports"]):
            path = ("application", "exportGroups", group_index, "exports", index, "value")
            at, value = metainfo.at(*path), export["value"]
            positions = metainfo.locator.placeholders(at, value)
            optional = export.get("optional", False)
            found.append(Export(group["name"], export["name"], value, at, positions, optional))
    return tuple(found)


def build_command_orders(metainfo: CheckedDocument) -> tuple[CommandOrder, ...]:
    """All orders. A component is INSTALLED once its container runs; every container runs before any
    program starts, so this requirement is always met."""
    written = metainfo.section("application").get("commandOrders", ())
    return tuple(
        CommandOrder(
            component=_component_of(order["command"]),
            requires=tuple(
                _component_of(word)
                for word in order["requires"].split(",")
                if word.strip().endswith("-STARTED")
            ),
            at=metainfo.at("application", "commandOrders", index, "command"),
        )
        for index, order in enumerate(written)
    )


def build_failure_policy(written: Mapping[str, Any]) -> FailurePolicy:
    """From metainfo's `failurePolicy`, with the schema's defaults for the keys that it lacks."""
    values = {**defaults("metainfo", "failurePolicy"), **written}
    return FailurePolicy(
        max_restarts=values["maxRestarts"],
        max_losses=values["maxInfrastructureRestarts"],
        startup=float(values["startupSeconds"]),
        repeats_end=values["endOnRepeatedFailure"],
        rules=tuple(
            FailureRule(
                rule["action"],
                tuple(rule.get("components", ())),
                tuple(code for one in rule.get("onExitCodes", ()) for code in exit_codes(one)),
                tuple(rule.get("onReasons", ())),
            )
            for rule in values.get("rules", ())
        ),
    )


def exit_codes(written: int | str) -> range:
    """ "128-255" -> each of them, and 42 -> itself. A range may begin with its greater end."""
    ends = [int(word) for word in str(written).split("-")]
    return range(min(ends), max(ends) + 1)


def _component_of(word: str) -> str:
    """ "worker-START" -> "worker"."""
    return word.strip().rpartition("-")[0]
