"""The changes that the command line makes to a package's documents: `--option`, `--compopt` and the
like. They are applied before the documents are checked, so that a wrong value is found as if it
stood in the file; its position is then the name of the option. They are applied in Slider's order,
and later ones win: `--option`, `--component`, `--compopt`, `--resopt`, `--rescompopt`.

As in Slider, `--option` and `--compopt` change the resources if the key begins with one of
`RESOURCE_PREFIXES`. Unlike in Slider, such a key is then not added to appConfig, and `--resopt`
changes the resources only. A component that is not in the resources gets a free priority when
`--component` gives it instances.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tfapp.contract.job import SITE_GLOBAL
from tfapp.documents.document import Document, plain_data
from tfapp.frozen import frozen
from tfapp.problems import Position

RESOURCE_PREFIXES = ("yarn.", "component.", "role.")
INSTANCES, PRIORITY = "yarn.component.instances", "yarn.role.priority"
METAINFO, APP_CONFIG, RESOURCES = "metainfo", "appConfig", "resources"
POLICY = ("application", "failurePolicy")


class Override(NamedTuple):
    """One value for one document: its path in the document, and the option that gave it."""

    document: str  # METAINFO, APP_CONFIG or RESOURCES
    path: tuple[str, ...]
    value: str
    at: Position

    @property
    def component(self) -> str | None:
        """The component that it changes, None when it changes all of them."""
        return self.path[1] if self.path[0] == "components" else None


_UNTOLD = ("env.", f"{SITE_GLOBAL}on.end")  # keys whose values may be secrets


@frozen
class Overrides:
    """The options as they were given: (key, value), or (component, key, value), or
    (component, count); all text. `max_restarts` and `max_losses` replace the failure policy's.
    `places`: how findings name an option, where that is not by its flag."""

    options: tuple[tuple[str, str], ...] = ()
    compopts: tuple[tuple[str, str, str], ...] = ()
    resopts: tuple[tuple[str, str], ...] = ()
    rescompopts: tuple[tuple[str, str, str], ...] = ()
    components: tuple[tuple[str, str], ...] = ()
    max_restarts: str = ""
    max_losses: str = ""
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def in_words(self) -> tuple[str, ...]:
        """The options for people to read, "KEY=VALUE" or "COMPONENT KEY=VALUE"; of variables, and
        of the address of a chat, without the value, without counts and the program with its
        arguments."""
        of_all = (("", *row) for row in (*self.options, *self.resopts))
        rows = (*of_all, *self.compopts, *self.rescompopts)
        return tuple(
            f"{component} {key}".strip() + ("" if key.startswith(_UNTOLD) else f"={value}")
            for component, key, value in rows
            if not key.startswith(f"{SITE_GLOBAL}user.scripts.")
        )

    def entries(self) -> Iterator[Override]:
        """Every override, in the order in which they are applied."""
        for key, limit, flag in (
            ("maxRestarts", self.max_restarts, "--max-restarts"),
            ("maxInfrastructureRestarts", self.max_losses, "--max-losses"),
        ):
            if limit:
                yield Override(METAINFO, (*POLICY, key), limit, self._at(flag))
        for key, value in self.options:
            at = self._at(f"--option {key}")
            yield Override(_document(key), ("global", key), value, at)
        for component, count in self.components:
            at = self._at(f"--component {component}")
            yield Override(RESOURCES, ("components", component, INSTANCES), str(count), at)
        for component, key, value in self.compopts:
            at = self._at(f"--compopt {component} {key}")
            yield Override(_document(key), ("components", component, key), value, at)
        for key, value in self.resopts:
            yield Override(RESOURCES, ("global", key), value, self._at(f"--resopt {key}"))
        for component, key, value in self.rescompopts:
            at = self._at(f"--rescompopt {component} {key}")
            yield Override(RESOURCES, ("components", component, key), value, at)

    def _at(self, option: str) -> Position:
        return Position(self.places.get(option, option))

    def without(self, components: Collection[str]) -> Overrides:
        return dataclasses.replace(
            self,
            compopts=tuple(words for words in self.compopts if words[0] not in components),
            rescompopts=tuple(words for words in self.rescompopts if words[0] not in components),
            components=tuple(words for words in self.components if words[0] not in components),
        )

    def apply(self, name: str, document: Document) -> Document:
        """`document`, which is METAINFO, APP_CONFIG or RESOURCES, with the overrides that are for
        it."""
        for override in self.entries():
            if override.document == name:
                if override.path[-1] == INSTANCES and _is_new(override.path[:-1], document):
                    path = (*override.path[:-1], PRIORITY)
                    document = document.with_value(path, _free_priority(document), override.at)
                document = document.with_value(override.path, override.value, override.at)
        return document


def _is_new(component: tuple[str, ...], document: Document) -> bool:
    try:
        document.node(component)
    except KeyError:
        return True
    return False


def _free_priority(resources: Document) -> str:
    """A priority above all others that can be read; the check of the document reports the
    others."""
    try:
        components = plain_data(resources.node(("components",)))
    except KeyError:
        components = {}
    settings = components.values() if isinstance(components, dict) else ()
    taken = (str(one.get(PRIORITY)) for one in settings if isinstance(one, dict))
    return str(1 + max((int(text) for text in taken if text.isdecimal()), default=0))


def _document(key: str) -> str:
    return RESOURCES if key.startswith(RESOURCE_PREFIXES) else APP_CONFIG
