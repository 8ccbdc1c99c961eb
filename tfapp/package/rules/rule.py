"""The parts of rules: the decorator that lists one, and walks over the values of a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tfapp import close_match
from tfapp.package.model import AppPackage, Component, ConfigValue, Export, ExportRef, setting
from tfapp.placeholders import Placeholder
from tfapp.problems import ERROR, Position, Problem

SITE, ENV = "site.", "env."


class Found(NamedTuple):
    """A finding of a rule: a Problem but for its code."""

    at: Position
    message: str
    hint: str = ""
    severity: str = ERROR


Check = Callable[[AppPackage], Iterable[Found]]


class Rule(NamedTuple):
    """`needs` are the documents that must have passed their schema ("metainfo", "appConfig",
    "resources"). The docstring of `check` is the rule's manual page."""

    code: str
    needs: frozenset[str]
    check: Check

    def problems(self, package: AppPackage) -> Iterator[Problem]:
        """The problems of `package`, in any order."""
        for at, message, hint, severity in self.check(package):
            yield Problem(at, self.code, message, severity, hint)


RULES: list[Rule] = []


def rule(code: str, *needs: str) -> Callable[[Check], Check]:
    """Lists the decorated function, which finds errors in a package, in any order."""

    def listed(check: Check) -> Check:
        RULES.append(Rule(code, frozenset(needs), check))
        return check

    return listed


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


def settings(package: AppPackage, key: str) -> Iterator[ConfigValue]:
    """Every value of site.global.`key`: that of `global`, then each component's."""
    for values in (package.config.global_, *package.config.components.values()):
        value = setting(values, key)
        if value is not None:
            yield value


def all_placeholders(package: AppPackage) -> Iterator[tuple[str, Placeholder, Position, str]]:
    """(key, placeholder, its place, the text that it stands in) of all of appConfig."""
    for key, value in all_values(package):
        for placeholder, at in value.placeholders():
            yield key, placeholder, at, value.text


def export_placeholders(package: AppPackage) -> Iterator[tuple[Export, Placeholder, Position]]:
    for export in package.exports:
        for placeholder, at in export.placeholders():
            yield export, placeholder, at


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


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    return close_match.did_you_mean(word, known, otherwise, "did you mean '{}'?")
