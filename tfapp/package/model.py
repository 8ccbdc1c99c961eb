"""A valid app package, as frozen values. No I/O; each value has its position in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from tfapp import placeholders
from tfapp.contract.job import SITE_GLOBAL, FailurePolicy, Resources
from tfapp.frozen import frozen
from tfapp.placeholders import Placeholder
from tfapp.problems import Position

FILES = "files/"  # below it are the programs of a package, and the user's own


class Source(Protocol):
    """The files of a package: a folder or a .zip. Paths are relative, '/'-separated, inside."""

    @property
    def label(self) -> str:
        """Its name in messages: the path that the user gave."""

    def files(self) -> tuple[str, ...]:
        """Every regular file, sorted."""

    def read(self, path: str) -> bytes:
        """Content of one file. NotFoundError when there is none."""

    def executable(self, path: str) -> bool:
        """Whether the file's owner may execute it."""


@frozen
class ExportRef:
    """A word of a component's `compExports`/`appExports`: `<group>-<export>`."""

    group: str
    name: str
    at: Position = dataclasses.field(compare=False)


@frozen
class Export:
    group: str
    name: str
    value: str
    at: Position = dataclasses.field(compare=False)  # of `value`
    placed: tuple[Position, ...] = dataclasses.field(compare=False, default=())
    optional: bool = False  # whether components leave it out that lack a key of `value`

    def placeholders(self) -> Iterator[tuple[Placeholder, Position]]:
        """Every placeholder of the value, and where it stands."""
        return _placed(self.value, self.placed, self.at)


@frozen
class Component:
    name: str
    role: str
    category: str
    script: str
    script_timeout: float
    comp_exports: tuple[ExportRef, ...]
    app_exports: tuple[ExportRef, ...]
    min_instances: int
    max_instances: int | None
    docker_containers: tuple[Mapping[str, Any], ...]
    at: Position = dataclasses.field(compare=False)  # of `name`'s value
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)

    def place(self, key: str) -> Position:
        """The position of `key`, or else of the component's name."""
        return self.positions.get(key, self.at)


@frozen
class CommandOrder:
    """`component`-START waits until every one of `requires` is STARTED."""

    component: str
    requires: tuple[str, ...]
    at: Position = dataclasses.field(compare=False)


# Values of site.global.run.mode. Engines may have more.
LOCAL, DOCKER = "local", "docker"


@frozen
class ConfigValue:
    """One value of appConfig, as the author wrote it, with its position: for a value of the command
    line, the name of the option."""

    text: str
    at: Position = dataclasses.field(compare=False)
    key_at: Position = dataclasses.field(compare=False)
    placed: tuple[Position, ...] = dataclasses.field(compare=False, default=())
    is_default: bool = dataclasses.field(compare=False, default=False)  # of a schema

    def placeholders(self) -> Iterator[tuple[Placeholder, Position]]:
        """Every placeholder of the value, with its position."""
        return _placed(self.text, self.placed, self.at)


def setting(values: Mapping[str, ConfigValue], key: str) -> ConfigValue | None:
    """The value of site.global.`key`, a key of appConfig's schema. None when it is not set."""
    return values.get(SITE_GLOBAL + key)


def _placed(
    text: str, positions: tuple[Position, ...], at: Position
) -> Iterator[tuple[Placeholder, Position]]:
    """`positions` has a position for each placeholder of `text`, or for none of them."""
    return zip_longest(placeholders.find(text), positions, fillvalue=at)  # type: ignore[arg-type]


@frozen
class Config:
    """appConfig. `components[c]` is the *effective* configuration of component c: schema
    defaults, then `global`, then the component's own. `credentials`: alias -> "file:PATH" or
    "env:NAME"."""

    global_: Mapping[str, ConfigValue]
    components: Mapping[str, Mapping[str, ConfigValue]]
    credentials: Mapping[str, ConfigValue]
    metadata: Mapping[str, object]
    # Of the keys below appConfig's own `components`.
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)

    def has(self, key: str) -> bool:
        """Whether anybody gives `key` a value that is not empty."""
        sections = (self.global_, *self.components.values())
        return any(section[key].text for section in sections if key in section)

    def with_option(self, key: str, text: str) -> Config:
        """As `--option` would change it, where no component has a value of its own."""
        at = Position(f"--option {key}")
        own = {key: ConfigValue(text, at, at)}
        components = {name: {**section, **own} for name, section in self.components.items()}
        return dataclasses.replace(self, global_={**self.global_, **own}, components=components)


MASTER_NAMES = ("slider-appmaster", "appmaster")  # the application master among the components


@frozen
class ComponentResources:
    name: str
    instances: int
    container: Resources
    priority: int
    failure_threshold: int  # recent failures that are survived; 0 or less: any number
    failure_window: float  # seconds that a failure counts as recent; 0: for ever
    at: Position = dataclasses.field(compare=False)
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)
    least: int | None = None  # with how many instances the application trains; None: with all

    def place(self, key: str) -> Position:
        """The position of `key`, or else of the component."""
        return self.positions.get(key, self.at)


@frozen
class AppPackage:
    """A package that passed its schemas and rules, with one configuration and one set of
    resources applied to it."""

    source: Source
    name: str
    version: str
    comment: str
    components: tuple[Component, ...]
    exports: tuple[Export, ...]
    command_orders: tuple[CommandOrder, ...]
    success: tuple[str, ...]  # components, and instances ("worker/0"); (): the default policy
    failure: FailurePolicy
    config: Config
    resources: Mapping[str, ComponentResources]  # by component; a missing one has 0 instances
    master: ComponentResources
    # --files: path below files/ in a container -> the submitting user's own file. They win over
    # the package's files/.
    user_files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    # "application", "resources", "successPolicy" (where it stands, or would stand), each rule of
    # the failure policy, "failurePolicy.0"..., and for each component that a policy names
    # "successPolicy.0"..., "failurePolicy.0.0"... (rule, place).
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)

    def component(self, name: str) -> Component:
        """KeyError when metainfo has none of this name."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    def instances(self, name: str) -> int:
        found = self.resources.get(name)
        return found.instances if found else 0
