"""A placeholder names a component that metainfo does not declare.

`${ps_HOST}` (also in capitals, `${PS_HOST}`) and `${ps.ALLOCATED_PORT}` name the component `ps`;
in a port, capitals must be as in metainfo.

    components: [{name: worker}]    "${worker_HOST}", "${worker.ALLOCATED_PORT}"     PASS
    components: [{name: worker}]    "${workr_HOST}", "${Worker.ALLOCATED_PORT}"      FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values, component_names, did_you_mean
from tfapp.placeholders import HOST, PORT, Placeholder, host_component
from tfapp.problems import Position, Problem

CODE = "placeholder-component"
NEEDS = ("metainfo",)

# Hosts of the Hadoop cluster that Slider replaced.
SLIDERS = {"NN": "the name node", "ZK": "ZooKeeper"}


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the placeholder."""
    names = component_names(package)
    for export in package.exports:
        for placeholder, at in export.placeholders():
            yield from _check(placeholder, at, names)
    for _, value in all_values(package):
        for placeholder, at in value.placeholders():
            yield from _check(placeholder, at, names)


def _check(placeholder: Placeholder, at: Position, names: tuple[str, ...]) -> Iterator[Problem]:
    if placeholder.kind == HOST:
        found = host_component(placeholder, names) is not None
    else:
        found = placeholder.kind != PORT or placeholder.component in names
    if found:
        return
    component = placeholder.component
    match = close_match(component, names)
    hint = did_you_mean(match, f"metainfo's components are {', '.join(names)}")
    if placeholder.kind == HOST and component in SLIDERS and not match:
        hint = f"in Slider it meant the host of {SLIDERS[component]}; write its name"
    message = f"${{{placeholder.name}}} names the component '{component}', which there is not"
    yield Problem(at, CODE, message, hint=hint)
