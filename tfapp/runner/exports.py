"""From a component's configuration to what one instance means by it: ports, hosts, exports.

Pure. Placeholders are replaced in this order: ports and what the container knows, then references
between values; the exports follow from that. What needs the whole cluster (hosts of components,
the task's place) is replaced last, in the values that the package's script sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from tfapp import placeholders
from tfapp.contract.control import Member
from tfapp.contract.job import ExportTemplate
from tfapp.placeholders import CONTAINER, HOST, PORT, PROGRAM, REFERENCE, Placeholder

SITE_GLOBAL = "site.global."


class ExportError(Exception):
    """An export cannot be made; the text is a sentence for the user."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The `site.*` values of one instance, and the ports in them, by key. A value with several
    ports is listed with its first."""

    site: Mapping[str, str]
    ports: Mapping[str, int]


def settle(
    site: Mapping[str, str],
    component: str,
    known: Mapping[str, str],
    take_port: Callable[[int], int],
) -> Settings:
    """Replaces ports, container facts (`known`: name -> text) and references in `site`.

    `take_port(preferred)` is called for every place where a port of `component` is written;
    another component's port is "0" here. ValueError for a ring of references.
    """
    ports: dict[str, int] = {}
    settled = {}
    for key in sorted(site):

        def lookup(found: Placeholder, key: str = key) -> str | None:
            if found.kind == CONTAINER:
                return known.get(found.name)
            if found.kind != PORT:
                return None
            if found.component != component:
                return "0"
            number = take_port(found.default or 0)
            ports.setdefault(key, number)
            return str(number)

        settled[key] = placeholders.substitute(site[key], lookup)
    return Settings(placeholders.resolve(settled), ports)


def export_values(
    templates: Iterable[ExportTemplate], settings: Settings, host: str, known: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """group -> name -> value. In an export every `<component>_HOST` is this instance's host.
    ExportError for a placeholder that nothing replaces."""

    def lookup(found: Placeholder) -> str | None:
        if found.kind == HOST:
            return host
        return known.get(found.name, settings.site.get(found.name))

    groups: dict[str, dict[str, str]] = {}
    for template in templates:
        try:
            value = placeholders.substitute(template.value, lookup, partial=False)
        except KeyError as error:
            raise ExportError(
                f"export {template.group}/{template.name}: nothing replaces {error.args[0]}"
            ) from None
        groups.setdefault(template.group, {})[template.name] = value
    return groups


def expander(
    settings: Settings,
    component: str,
    components: Sequence[str],
    members: Sequence[Member],
    known: Callable[[str], str | None],
) -> Callable[[str, str], str]:
    """`expand(key, text)` replaces everything in a text that stands, or stood, in the `site.*`
    value of `key`. `known(name)` gives container facts and what a program may ask for."""

    def expand(key: str, text: str) -> str:
        def lookup(found: Placeholder) -> str | None:
            if found.kind == HOST:
                wanted = placeholders.host_component(found, components)
                return None if wanted is None else hosts_of(wanted, members)
            if found.kind == PORT:
                return str(settings.ports.get(key, 0)) if found.component == component else "0"
            if found.kind == REFERENCE:
                value = settings.site.get(found.name)
                return None if value is None else expand(found.name, value)
            return known(found.name) if found.kind in (CONTAINER, PROGRAM) else None

        return placeholders.substitute(text, lookup)

    return expand


def program_config(site: Mapping[str, str], expand: Callable[[str, str], str]) -> dict[str, str]:
    """What the script sees as its config: `site.global.*` without that prefix, expanded."""
    return {
        key[len(SITE_GLOBAL) :]: expand(key, text)
        for key, text in site.items()
        if key.startswith(SITE_GLOBAL)
    }


def hosts_of(component: str, members: Iterable[Member]) -> str:
    """Comma list of the hosts of a component's instances, by index."""
    return ",".join(member.host for member in members if member.component == component)
