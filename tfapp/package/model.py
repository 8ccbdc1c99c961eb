"""What a valid app package is. Frozen values, no I/O; each remembers where it was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from tfapp import placeholders
from tfapp.contract.failure import FailurePolicy
from tfapp.placeholders import Placeholder
from tfapp.problems import Position

FILES = "files/"  # below it are the programs of a package, and the user's own


class Source(Protocol):
    """The files of a package: a folder or a .zip. Paths are relative, '/'-separated, inside."""

    @property
    def label(self) -> str:
        """How messages name it: the path the user gave."""

    def files(self) -> tuple[str, ...]:
        """Every regular file, sorted."""

    def read(self, path: str) -> bytes:
        """Content of one file. NotFoundError when there is none."""

    def executable(self, path: str) -> bool:
        """Whether the file's owner may execute it."""


@dataclasses.dataclass(frozen=True)
class ExportRef:
    """A word of a component's `compExports`/`appExports`: `<group>-<export>`."""

    group: str
    name: str
    at: Position = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Export:
    """One named template of an export group."""

    group: str
    name: str
    value: str
    at: Position = dataclasses.field(compare=False)  # of `value`
    places: tuple[Position, ...] = dataclasses.field(compare=False, default=())

    def placeholders(self) -> Iterator[tuple[Placeholder, Position]]:
        """Every placeholder of the value, and where it stands."""
        return _placed(self.value, self.places, self.at)


@dataclasses.dataclass(frozen=True)
class Component:
    """One component of metainfo."""

    name: str
    role: str
    category: str
    script: str
    script_timeout: float
    comp_exports: tuple[ExportRef, ...]
    app_exports: tuple[ExportRef, ...]
    min_instances: int
    max_instances: int | None
    docker_containers: tuple[Mapping, ...]
    at: Position = dataclasses.field(compare=False)  # of `name`'s value
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)


@dataclasses.dataclass(frozen=True)
class CommandOrder:
    """`component`-START waits until every one of `requires` is STARTED."""

    component: str
    requires: tuple[str, ...]
    at: Position = dataclasses.field(compare=False)


SCHEMA_DEFAULT = Position("appConfig.schema.json")


@dataclasses.dataclass(frozen=True)
class ConfigValue:
    """One appConfig value as text (what the author wrote), with its place. `at` is
    SCHEMA_DEFAULT or the option's pseudo-position when it stands in no file."""

    text: str
    at: Position = dataclasses.field(compare=False)
    key_at: Position = dataclasses.field(compare=False)
    places: tuple[Position, ...] = dataclasses.field(compare=False, default=())

    @property
    def is_default(self) -> bool:
        """Whether nobody wrote it: it is the schema's default."""
        return self.at == SCHEMA_DEFAULT

    def placeholders(self) -> Iterator[tuple[Placeholder, Position]]:
        """Every placeholder of the value, and where it stands."""
        return _placed(self.text, self.places, self.at)


def _placed(
    text: str, places: tuple[Position, ...], at: Position
) -> Iterator[tuple[Placeholder, Position]]:
    """`places` has a position for each placeholder of `text`, or for none of them."""
    return zip_longest(placeholders.find(text), places, fillvalue=at)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
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


MAX = "max"
MASTER_NAMES = ("slider-appmaster", "appmaster")  # the application master among the components


@dataclasses.dataclass(frozen=True)
class ComponentResources:
    """What one component asks for. memory: MiB or "max"; vcores: count or "max"."""

    name: str
    instances: int
    memory: int | str
    vcores: int | str
    gpus: int
    priority: int
    label: str
    failure_threshold: int  # recent failures that are survived; 0 or less: any number
    failure_window: float  # seconds that a failure counts as recent; 0: for ever
    at: Position = dataclasses.field(compare=False)
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)
    nodes: tuple[str, ...] = ()  # the hosts, and the racks, on which it is to run; () for any
    racks: tuple[str, ...] = ()
    relax_locality: bool = False  # whether it may run elsewhere too


@dataclasses.dataclass(frozen=True)
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
    success: tuple[str, ...]  # component names; () means the default policy
    config: Config
    resources: Mapping[str, ComponentResources]  # by component; a missing one has 0 instances
    master: ComponentResources
    # --files: path below files/ in a container -> the submitting user's own file. They win over
    # the package's files/.
    user_files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    failure: FailurePolicy = FailurePolicy()
    # "application", "resources", "successPolicy" (where it stands, or would stand), and for each
    # component that a policy names "successPolicy.0"..., "failurePolicy.0.0"... (rule, place).
    positions: Mapping[str, Position] = dataclasses.field(compare=False, default_factory=dict)

    def component(self, name: str) -> Component:
        """KeyError when metainfo has none of this name."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    def instances(self, name: str) -> int:
        """How many instances of component `name` are asked for."""
        found = self.resources.get(name)
        return found.instances if found else 0
