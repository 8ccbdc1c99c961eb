"""What is known of an application before it is a specification. It is found out once; the checks,
the job, the specification and the pods of an engine are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfapp.compiler.settings import ComponentSettings
from tfapp.contract.job import Docker, Job
from tfapp.environment import archive
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage, Component, ComponentResources, ConfigValue
from tfapp.problems import Position


@frozen
class Travelling:
    """An environment that is shipped. `path`: the archive on this machine, None where it is
    elsewhere. `url`: where containers get it from. `placed`: whether tfapp has to bring it there.
    `at`: where it is configured."""

    path: Path | None
    url: str
    placed: bool = False
    at: Position = Position("")

    def __str__(self) -> str:
        return str(self.path or self.url)

    @property
    def name(self) -> str:
        """The archive's name at its place."""
        return self.url.rpartition("/")[2]

    @property
    def is_pex(self) -> bool:
        return archive.is_pex(self.url)


@frozen
class Python:
    """The Python of the containers of one component, or of the master's. `own`: the interpreter of
    tfapp's own part. `key`: the key that configures it. `programs`: that of programs in run mode
    local, unless they configure an executable. `travels`: the key that configures an environment
    to ship, "" without one. `runs`: whether `own` is known to run tfapp there."""

    own: str
    key: str
    programs: str = ""
    travels: str = ""
    travelling: Travelling | None = None
    runs: bool = False


@frozen
class ComponentPlan:
    """One component. `values`: its configuration: schema defaults, then global, then its own.
    `own`: the same, with what is known now in place of placeholders. `image`: that which appConfig
    names, else metainfo's, else the schema's default. `docker`: its container in run modes docker
    and yarn-docker."""

    component: Component
    asked: ComponentResources
    values: Mapping[str, ConfigValue]
    own: ComponentSettings
    image: str
    docker: Docker | None
    python: Python


@frozen
class Plan:
    """An application. `components`: those that have resources, in the order of their role priority.
    `master`: the Python of the application master."""

    package: AppPackage
    job: Job
    components: Mapping[str, ComponentPlan]
    master: Python
