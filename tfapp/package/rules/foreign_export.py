"""An export says something of another component than the one that feeds it.

Each instance publishes its exports itself, and knows its own host and ports alone: another
component's host is not known yet, another component's port is 0 there.

    worker feeds   "${worker_HOST}:${site.global.worker.port}"     PASS
    worker feeds   "${ps_HOST}:${site.global.worker.port}"         FAIL
    worker feeds   "${worker_HOST}:${site.global.ps.port}"         FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component, Export
from tfapp.package.rules.written import component_names, feeders
from tfapp.placeholders import HOST, PORT, REFERENCE, Placeholder, host_component
from tfapp.problems import Position, Problem

CODE = "foreign-export"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the placeholder, for each component that feeds the export."""
    names = component_names(package)
    for export in package.exports:
        for feeder in feeders(package, export):
            for placeholder, at in export.placeholders():
                if placeholder.kind == HOST:
                    host = host_component(placeholder, names)
                    if host not in (None, feeder.name):
                        yield _host_problem(export, feeder, placeholder, at)
                elif placeholder.kind == REFERENCE:
                    yield from _check_port(package, feeder, placeholder.name, at)


def _host_problem(
    export: Export, feeder: Component, placeholder: Placeholder, at: Position
) -> Problem:
    message = (
        f"'{feeder.name}' feeds the export '{export.group}-{export.name}' and does not know "
        f"the host of '{placeholder.component}'"
    )
    hint = "write ${THIS_HOST}, which is the own host of each that feeds it"
    return Problem(at, CODE, message, hint=hint)


def _check_port(
    package: AppPackage, feeder: Component, key: str, at: Position
) -> Iterator[Problem]:
    names = component_names(package)
    value = package.config.components.get(feeder.name, {}).get(key)
    for placeholder, _ in value.placeholders() if value else ():
        if placeholder.kind != PORT or placeholder.component not in names:
            continue  # placeholder-component
        if placeholder.component != feeder.name:
            message = f"{key} is a port of '{placeholder.component}', and '{feeder.name}' feeds"
            message += " this export"
            hint = f"refer to a key that holds ${{{feeder.name}.ALLOCATED_PORT}}{{PER_CONTAINER}}"
            yield Problem(at, CODE, message, hint=hint)
