"""App packages built from Python values, for tests that need no files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tests.contract_values import FAILURE_POLICY
from tfapp.compiler.compile import Compiled, CompileOptions, compile_application
from tfapp.contract.job import Resources
from tfapp.documents.scalars import source_text
from tfapp.engines.yarn import specification
from tfapp.errors import NotFoundError
from tfapp.package.model import (
    AppPackage,
    Component,
    ComponentResources,
    Config,
    ConfigValue,
    Export,
    ExportRef,
)
from tfapp.problems import Position
from tfapp.schema import defaults

RUNTIME = (("__main__.py", b"print('runtime')\n"),)


@dataclasses.dataclass(frozen=True)
class MemorySource:
    """A package's files, held in memory."""

    content: Mapping[str, bytes]
    executables: tuple[str, ...] = ()
    label: str = "app"

    def files(self) -> tuple[str, ...]:
        return tuple(sorted(self.content))

    def read(self, path: str) -> bytes:
        try:
            return self.content[path]
        except KeyError:
            raise NotFoundError(path) from None

    def executable(self, path: str) -> bool:
        return path in self.executables


def values(line: int, settings: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Settings as if they stood in appConfig.yaml from `line` on, one in each line."""
    return {
        key: ConfigValue(
            text,
            Position("app/appConfig.yaml", line + offset, 20),
            Position("app/appConfig.yaml", line + offset, 3),
        )
        for offset, (key, text) in enumerate(settings.items())
    }


def component(name: str, role: str = "", **changes) -> Component:
    built = Component(
        name=name,
        role=role or name,
        category="MASTER",
        script="scripts/tensorflow.py",
        script_timeout=600.0,
        comp_exports=(ExportRef(name, "host_port", Position("app/metainfo.yaml", 9, 9)),),
        app_exports=(),
        min_instances=0,
        max_instances=None,
        docker_containers=(),
        at=Position("app/metainfo.yaml", 5, 13),
    )
    return dataclasses.replace(built, **changes)


def resources(name: str, instances: int = 1, priority: int = 1, **changes) -> ComponentResources:
    built = ComponentResources(
        name=name,
        instances=instances,
        container=Resources(2048, 1),
        priority=priority,
        failure_threshold=5,
        failure_window=21600.0,
        at=Position("app/resources.yaml", 3 + 4 * priority, 3),
        positions={
            key: Position("app/resources.yaml", 3 + 4 * priority + offset, 20)
            for offset, key in enumerate(
                ("yarn.memory", "yarn.vcores", "yarn.gpus", "yarn.label.expression"), start=1
            )
        },
    )
    sizes = {field.name for field in dataclasses.fields(Resources)} & changes.keys()
    container = {name: changes.pop(name) for name in sizes}
    changes["container"] = dataclasses.replace(built.container, **container)
    return dataclasses.replace(built, **changes)


NOWHERE = Position("appConfig.schema.json")
MASTER = resources("slider-appmaster", priority=0, memory=1024)


DEFAULTS = {
    key: ConfigValue(source_text(value), NOWHERE, NOWHERE, is_default=True)
    for key, value in defaults("appConfig").items()
}
DEFAULT_TEXTS = {key: value.text for key, value in DEFAULTS.items()}


def package(
    *components: Component,
    counts: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    own: Mapping[str, Mapping[str, str]] | None = None,
    credentials: Mapping[str, str] | None = None,
    **changes,
) -> AppPackage:
    """A package of `components` (worker alone by default), one instance each unless `counts`
    says otherwise. `settings` is appConfig's global, `own` its components; below them are the
    schema's defaults."""
    components = components or (component("worker"),)
    shared = values(
        10, {f"site.global.{c.name}.port": port_of(c.name) for c in components} | (settings or {})
    )
    counts = {c.name: 1 for c in components} | (counts or {})
    config = Config(
        global_=shared,
        components={
            c.name: {**DEFAULTS, **shared, **values(50, (own or {}).get(c.name, {}))}
            for c in components
        },
        credentials=values(80, credentials or {}),
        metadata={},
    )
    built = AppPackage(
        source=MemorySource(
            {
                "files/train.py": b"print('train')\n",
                "metainfo.yaml": b"schemaVersion: 2.1\n",
                "scripts/tensorflow.py": b"class Tensorflow: ...\n",
            }
        ),
        name="tfyarn",
        version="1.10",
        comment="",
        components=components,
        exports=tuple(
            Export(
                c.name,
                "host_port",
                f"${{{c.name}_HOST}}:${{site.global.{c.name}.port}}",
                Position("app/metainfo.yaml", 20, 16),
            )
            for c in components
        ),
        command_orders=(),
        success=(),
        failure=FAILURE_POLICY,
        config=config,
        resources={
            name: resources(name, count, priority)
            for priority, (name, count) in enumerate(counts.items(), start=1)
        },
        master=MASTER,
    )
    return dataclasses.replace(built, **changes)


def port_of(name: str) -> str:
    return f"${{{name}.ALLOCATED_PORT}}{{PER_CONTAINER}}"


def options(**changes) -> CompileOptions:
    """Options as a submission on a laptop has them, with a tiny runtime."""
    built = CompileOptions(
        name="digits",
        user="ann",
        python="/opt/python/bin/python3",
        cache=Path("/home/ann/.tfapp/cache"),
        runtime=RUNTIME,
        private_key=b"key",
        check=specification.check,
        adapt=specification.adapt,
    )
    return dataclasses.replace(built, **changes)


def compile_with(built: AppPackage, **changes) -> Compiled:
    return compile_application(built, options(**changes))
