"""Export groups, and the components that feed them."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component
from tfapp.package.rules.rule import (
    Found,
    component_names,
    did_you_mean,
    export_placeholders,
    feeders,
    references,
    rule,
)
from tfapp.placeholders import HOST, PORT, REFERENCE, host_component
from tfapp.problems import Position

RESERVED = ("container_log_dirs", "container_work_dirs")


@rule("export-name", "metainfo")
def export_name(package: AppPackage) -> Iterator[Found]:
    """An export group, or an export, that another one of the same name would hide.

    Groups are looked up without regard to capitals: `Worker` and `worker` are one. A group's
    exports have names of their own. `container_log_dirs` and `container_work_dirs` are always
    there. Reported at the value of the export, of a group's first one for what is the group's.

        exportGroups: [{name: worker}, {name: ps}]           PASS
        exportGroups: [{name: worker}, {name: Worker}]       FAIL
        exportGroups: [{name: container_log_dirs}]           FAIL
    """
    groups: dict[str, str] = {}
    exports: set[tuple[str, str]] = set()
    for export in package.exports:
        group, folded = export.group, export.group.lower()
        if folded not in groups and folded in RESERVED:
            message = f"the export group '{group}' is filled by tfapp"
            yield Found(export.at, message, "choose another name")
        if groups.setdefault(folded, group) != group:
            message = f"the export groups '{groups[folded]}' and '{group}' differ only in capitals"
            yield Found(export.at, message, "put their exports into one group")
        if (group, export.name) in exports:
            message = f"the group '{group}' has an export '{export.name}' already"
            yield Found(export.at, message, "remove one of the two")
        exports.add((group, export.name))


@rule("dangling-export", "metainfo")
def dangling_export(package: AppPackage) -> Iterator[Found]:
    """`compExports` or `appExports` names an export that no export group has. Their words are
    `<group>-<export>`, compared whole. Reported at the word.

        exportGroups: [{name: worker, exports: [{name: host_port, ...}]}]
        compExports: worker-host_port      PASS
        compExports: worker-hostport       FAIL
    """
    known = sorted({f"{export.group}-{export.name}" for export in package.exports})
    declared = f"declared are {', '.join(known)}" if known else "declare it in exportGroups"
    for component in package.components:
        for reference in references(component):
            word = f"{reference.group}-{reference.name}" if reference.name else reference.group
            if word not in known:
                hint = did_you_mean(word, known, declared)
                yield Found(reference.at, f"no export group has an export for '{word}'", hint)


@rule("unfed-export", "metainfo")
def unfed_export(package: AppPackage) -> Iterator[Found]:
    """An export that no component feeds: nothing would ever publish it. Reported at its value.

    compExports: worker-host_port    in some component                      PASS
    no component has worker-host_port in its compExports or appExports      FAIL
    """
    for export in package.exports:
        if not feeders(package, export):
            word = f"{export.group}-{export.name}"
            hint = f"add `compExports: {word}` to the component that does, or remove the export"
            yield Found(export.at, f"no component feeds the export '{word}'", hint)


@rule("foreign-export", "metainfo")
def foreign_export(package: AppPackage) -> Iterator[Found]:
    """An export says something of another component than the one that feeds it.

    Each instance publishes its exports itself, and knows its own host and ports alone: another
    component's host is not known yet, another component's port is 0 there. Reported at the
    placeholder, for each component that feeds the export.

        worker feeds   "${worker_HOST}:${site.global.worker.port}"     PASS
        worker feeds   "${ps_HOST}:${site.global.worker.port}"         FAIL
        worker feeds   "${worker_HOST}:${site.global.ps.port}"         FAIL
    """
    names = component_names(package)
    for export, placeholder, at in export_placeholders(package):
        for feeder in feeders(package, export):
            if placeholder.kind == REFERENCE:
                yield from _check_port(package, feeder, placeholder.name, at)
            elif placeholder.kind == HOST and (
                host_component(placeholder, names) not in (None, feeder.name)
            ):
                message = f"'{feeder.name}' feeds the export '{export.group}-{export.name}' and "
                message += f"does not know the host of '{placeholder.component}'"
                hint = "write ${THIS_HOST}, which is the own host of each that feeds it"
                yield Found(at, message, hint)


def _check_port(package: AppPackage, feeder: Component, key: str, at: Position) -> Iterator[Found]:
    names = component_names(package)
    value = package.config.components.get(feeder.name, {}).get(key)
    for placeholder, _ in value.placeholders() if value else ():
        if placeholder.kind != PORT or placeholder.component not in names:
            continue  # placeholder-component
        if placeholder.component != feeder.name:
            message = f"{key} is a port of '{placeholder.component}', and '{feeder.name}' feeds"
            message += " this export"
            hint = f"refer to a key that holds ${{{feeder.name}.ALLOCATED_PORT}}{{PER_CONTAINER}}"
            yield Found(at, message, hint)
