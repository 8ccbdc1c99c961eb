"""AppPackage -> Job: the application as its coordinator and its runners need it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tfapp import __version__
from tfapp.compiler.options import CompileOptions
from tfapp.compiler.plan import ComponentPlan
from tfapp.compiler.settings import ComponentSettings
from tfapp.contract.job import MAX, ComponentJob, ExportTemplate, Job, Limits, Resources, Settings
from tfapp.package.amounts import seconds
from tfapp.package.model import DOCKER, AppPackage, Component, ComponentResources, Export, setting
from tfapp.package.rules.scripts import knows_its_program
from tfapp.placeholders import REFERENCE
from tfapp.problems import Problem

# The first of these roles that has an instance decides on the application's success. `ps` and
# `tensorboard` are not among them: they never end by themselves.
DECIDING_ROLES = ("chief", "worker", "evaluator", "other")
_BUSY_ROLES = ("chief", "worker")  # the others may have nothing to show for long


def build_job(
    package: AppPackage, options: CompileOptions, components: Mapping[str, ComponentPlan]
) -> Job:
    """The job of a package that passed every check."""
    plans = tuple(components.values())
    shared = plans[0].own.settings
    return Job(
        name=options.name,
        application=package.name,
        version=package.version,
        user=options.user,
        components=tuple(_component_job(package, plan, options) for plan in plans),
        success=success_components(package),
        limits=read_limits(shared, options.settle, options.container_grace),
        failure=package.failure,
        nodes=options.nodes,
        class_path=options.class_path,
        attempts=int(shared.text("master.attempts")),
        called={
            **{p.component.name: "" for p in plans if knows_its_program(p.component, package)},
            **options.called,
        },
        options=options.given,
        commit=options.commit,
        tfapp=__version__,
        tags=options.tags,
        history_age=seconds(shared.text("history.max.age") or "0"),
        owner=options.owner if shared.flag("exec", options.sessions) else "",
        metrics_port=int(shared.text("metrics.port") or "0"),
    )


def _component_job(
    package: AppPackage, plan: ComponentPlan, options: CompileOptions
) -> ComponentJob:
    component, asked, own = plan.component, plan.asked, plan.own
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
        python=plan.python.programs,
        site=own.site,
        requires=_requires(package, component.name),
        category=component.category,
        docker=plan.docker if own.run_mode == DOCKER else None,
        failure_threshold=asked.failure_threshold,
        failure_window=asked.failure_window,
        progress_timeout=progress_timeout(package, component),
        # A single one trains alone, until others come by flex.
        elastic_min=asked.least if asked.least and asked.instances > 1 else 0,
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


def success_components(package: AppPackage) -> tuple[str, ...]:
    """Names of the components whose instances must all exit 0, and of instances that must.
    `successPolicy` names them; those of components without instances are left out. By default it is
    the chief; without one, the workers; without those, the evaluator, then components of role
    `other`; and if only `ps` and `tensorboard` run, all of them."""
    running = [c for c in package.components if package.instances(c.name) > 0]
    if package.success:
        there = {c.name for c in running}
        return tuple(name for name in package.success if name.partition("/")[0] in there)
    for role in DECIDING_ROLES:
        names = tuple(c.name for c in running if c.role == role)
        if names:
            return names
    return tuple(c.name for c in running)


def read_limits(
    settings: Settings, settle: float, container_grace: float = Limits.container_grace
) -> Limits:
    """Deadlines of the whole application, by the settings of one of its components: they are
    equal for all."""
    return Limits(
        gang=seconds(settings.text("gang.timeout")),
        queue=seconds(settings.text("queue.timeout") or "0"),
        lifetime=seconds(settings.text("application.lifetime")),
        evaluator=seconds(settings.text("evaluator.timeout")),
        stop_grace=seconds(settings.text("stop.grace")),
        settle=settle,
        container_grace=container_grace,
        elastic_wait=seconds(settings.text("elastic.wait")),
        elastic_interval=seconds(settings.text("elastic.interval")),
        save_grace=seconds(settings.text("save.grace")),
        master=seconds(settings.text("master.timeout")),
    )


def progress_timeout(package: AppPackage, component: Component) -> float:
    """The seconds in which a program of `component` must show progress; 0 for no limit."""
    own = setting(package.config.components[component.name], "progress.timeout")
    shared = setting(package.config.global_, "progress.timeout")
    inherited = own is None or own.is_default or (shared is not None and own.at == shared.at)
    if own is None or (inherited and component.role not in _BUSY_ROLES):
        return 0.0
    return seconds(own.text)


def settled(asked: Resources, maximum: Mapping[str, int]) -> Resources:
    """`asked` with the engine's largest amounts in place of MAX. KeyError when the engine gave
    none."""
    return dataclasses.replace(
        asked,
        memory=maximum["memory"] if asked.memory == MAX else asked.memory,
        vcores=maximum["vcores"] if asked.vcores == MAX else asked.vcores,
    )


def check_resources(package: AppPackage, maximum: Mapping[str, int]) -> Iterator[Problem]:
    """Problems: MAX without an amount of the engine, a label for the master alone, which Skein
    cannot express, and an application without instances."""
    for asked in (package.master, *package.resources.values()):
        yield from _check_maximum(asked, maximum)
    yield from _check_master_label(package)
    if not any(package.instances(component.name) for component in package.components):
        message = "every component has 0 instances: there is nothing to run"
        hint = "Give yarn.component.instances in the resources, or --component NAME COUNT."
        yield Problem(package.master.at, "no-instances", message, hint=hint)


def _check_maximum(asked: ComponentResources, maximum: Mapping[str, int]) -> Iterator[Problem]:
    amounts = {"memory": asked.container.memory, "vcores": asked.container.vcores}
    for name, amount in amounts.items():
        if amount == MAX and name not in maximum:
            key = f"yarn.{name}"
            message = f"{key} of {asked.name} is 'max', and no engine says how much that is"
            hint = "Give a number: MiB of memory, or a count of vcores."
            yield Problem(asked.place(key), "max-resources", message, hint=hint)


def _check_master_label(package: AppPackage) -> Iterator[Problem]:
    key, master = "yarn.label.expression", package.master
    bare = sorted(asked.name for asked in package.resources.values() if not asked.container.label)
    if master.container.label and bare:
        message = (
            f"{key} of {master.name} would also hold for {', '.join(bare)}: in Skein a component "
            "without a label of its own inherits it"
        )
        hint = f"Give each component its own {key}, or remove this one."
        yield Problem(master.place(key), "master-label", message, hint=hint)
