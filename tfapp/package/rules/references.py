"""Configuration values that refer to other configuration values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfapp import placeholders
from tfapp.package.model import AppPackage, ConfigValue
from tfapp.package.rules.rule import (
    ENV,
    SITE,
    Found,
    did_you_mean,
    effective_values,
    export_placeholders,
    feeders,
    rule,
)
from tfapp.placeholders import REFERENCE, Placeholder
from tfapp.problems import Position


@rule("unknown-reference", "metainfo", "appConfig")
def unknown_reference(package: AppPackage) -> Iterator[Found]:
    """A reference to a configuration key that has no value.

    A reference is `${site.<type>.<key>}` or `${@//site/<type>/<key>}`, and means the value that
    the component has which uses it: its own, or the global one, or the schema's default. An export
    that is `optional` is left out instead.
    Reported at the reference.

        site.global.ps.port: ...    "${ps_HOST}:${site.global.ps.port}"     PASS
        site.global.ps.port: ...    "${ps_HOST}:${site.global.pss.port}"      FAIL
    """
    everywhere = {key for values in package.config.components.values() for key in values}
    for component, placeholder, at in _references(package):
        values, key = package.config.components.get(component, {}), placeholder.name
        if key not in values:
            message = f"{key} has no value"
            if key in everywhere:
                message = f"'{component}' has no value for {key}"
            known = [name for name in values if name.startswith(SITE)]
            otherwise = f"give {key} a value in appConfig, or remove the reference"
            yield Found(at, message, did_you_mean(key, known, otherwise))


def _references(package: AppPackage) -> Iterator[tuple[str, Placeholder, Position]]:
    """(component that needs the value, reference, place)."""
    for export, placeholder, at in export_placeholders(package):
        if placeholder.kind == REFERENCE and not export.optional:
            for component in feeders(package, export):
                yield component.name, placeholder, at
    for name, key, value in effective_values(package):
        if key.startswith((SITE, ENV)):
            for placeholder, at in value.placeholders():
                if placeholder.kind == REFERENCE:
                    yield name, placeholder, at


@rule("reference-cycle", "appConfig")
def reference_cycle(package: AppPackage) -> Iterator[Found]:
    """Configuration values that refer to each other in a ring, or grow beyond all measure.
    Reported once for each ring, at the reference with which its first key (in alphabetical
    order) leads into it.

    site.global.a: "${site.global.b}"    site.global.b: "x"                    PASS
    site.global.a: "${site.global.b}"    site.global.b: "${site.global.a}"     FAIL
    """
    for values in package.config.components.values():
        texts = {key: value.text for key, value in values.items() if key.startswith(SITE)}
        while True:
            try:
                placeholders.resolve(texts)
            except placeholders.ReferenceCycleError as error:
                yield _ring(values, error.trail)
                texts = {key: text for key, text in texts.items() if key not in error.trail}
            except ValueError as error:
                first = min(values.values(), key=lambda value: value.at)
                yield Found(first.at, str(error), "write the value out")
                break
            else:
                break


def _ring(values: Mapping[str, ConfigValue], trail: tuple[str, ...]) -> Found:
    ring = trail[:-1]
    start = ring.index(min(ring))
    ring = ring[start:] + ring[:start]
    following = (*ring, ring[0])[1]
    at = next(at for found, at in values[ring[0]].placeholders() if found.name == following)
    if len(ring) == 1:
        message = f"{ring[0]} refers to itself"
    else:
        message = f"these values refer to each other: {' -> '.join((*ring, ring[0]))}"
    return Found(at, message, "give one of them a value of its own")
