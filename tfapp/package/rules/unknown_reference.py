"""A reference to a configuration key that has no value.

A reference is `${site.<type>.<key>}` or `${@//site/<type>/<key>}`, and means the value that the
component has which uses it: its own, or the global one, or the schema's default.

    site.global.ps.port: ...    "${ps_HOST}:${site.global.ps.port}"     PASS
    site.global.ps.port: ...    "${ps_HOST}:${site.global.ps.prt}"      FAIL
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfapp.close_match import close_match
from tfapp.package.model import AppPackage, ConfigValue
from tfapp.package.rules.written import ENV, SITE, did_you_mean, feeders
from tfapp.placeholders import REFERENCE, Placeholder
from tfapp.problems import Position, Problem

CODE = "unknown-reference"
NEEDS = ("metainfo", "appConfig")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the reference."""
    for component, placeholder, at in _references(package):
        values = package.config.components.get(component, {})
        if placeholder.name not in values:
            yield Problem(
                at,
                CODE,
                _message(package, component, placeholder.name),
                hint=_hint(placeholder.name, values),
            )


def _references(package: AppPackage) -> Iterator[tuple[str, Placeholder, Position]]:
    """(component that needs the value, reference, place)."""
    for export in package.exports:
        for component in feeders(package, export):
            for placeholder, at in export.placeholders():
                if placeholder.kind == REFERENCE:
                    yield component.name, placeholder, at
    for component_name, values in package.config.components.items():
        for key, value in values.items():
            if key.startswith((SITE, ENV)):
                for placeholder, at in value.placeholders():
                    if placeholder.kind == REFERENCE:
                        yield component_name, placeholder, at


def _message(package: AppPackage, component: str, key: str) -> str:
    if any(key in values for values in package.config.components.values()):
        return f"'{component}' has no value for {key}"
    return f"{key} has no value"


def _hint(key: str, values: Mapping[str, ConfigValue]) -> str:
    known = [name for name in values if name.startswith(SITE)]
    return did_you_mean(
        close_match(key, known), f"give {key} a value in appConfig, or remove the reference"
    )
