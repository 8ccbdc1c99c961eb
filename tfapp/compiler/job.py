"""AppPackage -> Job: the application as its coordinator and its runners need it."""

from __future__ import annotations

from collections.abc import Mapping

from tfapp.compiler.docker import build_docker
from tfapp.compiler.limits import progress_timeout, read_limits
from tfapp.compiler.options import CompileOptions
from tfapp.compiler.python import program_python
from tfapp.compiler.resources import settled
from tfapp.compiler.settings import ComponentSettings
from tfapp.compiler.success import success_components
from tfapp.contract.job import ComponentJob, ExportTemplate, Job
from tfapp.package.model import DOCKER, AppPackage, Component, Export
from tfapp.placeholders import REFERENCE


def build_job(
    package: AppPackage, options: CompileOptions, settings: Mapping[str, ComponentSettings]
) -> Job:
    """The job of a package that passed every check, with the components in the order of their role
    priority."""
    components = submitted(package)
    shared = settings[components[0].name].settings
    return Job(
        name=options.name,
        application=package.name,
        version=package.version,
        user=options.user,
        components=tuple(
            _component_job(package, component, options, settings[component.name])
            for component in components
        ),
        success=success_components(package),
        limits=read_limits(shared, options.settle),
        failure=package.failure,
        nodes=options.nodes,
    )


def submitted(package: AppPackage) -> tuple[Component, ...]:
    """The components that have resources, also those with 0 instances, in the order of their role
    priority."""
    sized = [c for c in package.components if c.name in package.resources]
    return tuple(sorted(sized, key=lambda c: package.resources[c.name].priority))


def _component_job(
    package: AppPackage, component: Component, options: CompileOptions, own: ComponentSettings
) -> ComponentJob:
    asked = package.resources[component.name]
    return ComponentJob(
        name=component.name,
        role=component.role,
        instances=asked.instances,
        min_instances=component.min_instances,
        max_instances=component.max_instances,
        container=settled(asked.container, options.maximum),
        script=component.script,
        script_timeout=component.script_timeout,
        exports=_exports(package, component, own),
        python=program_python(package, options, component.name),
        site=own.site,
        requires=_requires(package, component.name),
        category=component.category,
        docker=build_docker(package, component, own) if own.run_mode == DOCKER else None,
        failure_threshold=asked.failure_threshold,
        failure_window=asked.failure_window,
        progress_timeout=progress_timeout(package, component),
    )


def _exports(
    package: AppPackage, component: Component, own: ComponentSettings
) -> tuple[ExportTemplate, ...]:
    """The templates that the component feeds, once each, in the order it names them."""
    declared = {(export.group, export.name): export for export in package.exports}
    named = dict.fromkeys(
        (ref.group, ref.name) for ref in (*component.comp_exports, *component.app_exports)
    )
    known = package.config.components.get(component.name, {})
    return tuple(
        ExportTemplate(group, name, own.expand(declared[group, name].value))
        for group, name in named
        if not (declared[group, name].optional and _lacks(declared[group, name], known))
    )


def _lacks(export: Export, known: Mapping[str, object]) -> bool:
    """Whether the component whose values are `known` has none for a key that the export names."""
    return any(p.kind == REFERENCE and p.name not in known for p, _ in export.placeholders())


def _requires(package: AppPackage, name: str) -> tuple[str, ...]:
    required = [
        other
        for order in package.command_orders
        if order.component == name
        for other in order.requires
        if other in package.resources
    ]
    return tuple(dict.fromkeys(required))
