"""Walks over the values of a package that rules share."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component, ConfigValue, Export, ExportRef

SITE, ENV = "site.", "env."


def effective_values(package: AppPackage) -> Iterator[tuple[str, str, ConfigValue]]:
    """(component, key, value) of every component's effective configuration."""
    for component, values in package.config.components.items():
        for key, value in values.items():
            yield component, key, value


def all_values(package: AppPackage) -> Iterator[tuple[str, ConfigValue]]:
    """(key, value) of all of appConfig: `global`, components, credentials."""
    yield from package.config.global_.items()
    for _, key, value in effective_values(package):
        yield key, value
    for alias, value in package.config.credentials.items():
        yield f"credentials.{alias}", value


def feeders(package: AppPackage, export: Export) -> tuple[Component, ...]:
    """The components that name `export` in their compExports or appExports."""
    wanted = (export.group, export.name)
    return tuple(
        component
        for component in package.components
        if any((ref.group, ref.name) == wanted for ref in references(component))
    )


def references(component: Component) -> tuple[ExportRef, ...]:
    """All the words of a component's compExports and appExports."""
    return (*component.comp_exports, *component.app_exports)


def component_names(package: AppPackage) -> tuple[str, ...]:
    """The names of the components, in metainfo's order."""
    return tuple(component.name for component in package.components)


def did_you_mean(match: str, otherwise: str) -> str:
    """A hint that offers a close match, else `otherwise`."""
    return f"did you mean '{match}'?" if match else otherwise
