"""AppPackage + options -> everything that is submitted. Writes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfapp.compiler.contents import check_files, inspect_user_files
from tfapp.compiler.credentials import build_private, check_credentials, check_on_end
from tfapp.compiler.job import build_job, check_resources
from tfapp.compiler.options import CompileOptions, check_options
from tfapp.compiler.plan import ComponentPlan, Plan, Travelling
from tfapp.compiler.python import check_archives, find_python, find_storage, placed
from tfapp.compiler.settings import ComponentSettings
from tfapp.compiler.shipment import ShippedFile, build_shipment
from tfapp.compiler.specification import build_specification
from tfapp.contract.job import Docker, Job, Mount, Private
from tfapp.errors import InvalidPackageError
from tfapp.frozen import frozen
from tfapp.package.amounts import seconds
from tfapp.package.docker import declared_mount, parse_mounts, parse_options
from tfapp.package.model import LOCAL, AppPackage, Component, ConfigValue, setting
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    import skein


__all__ = ["CompileOptions", "Compiled", "ShippedFile", "compile_application"]


@frozen
class Compiled:
    """An application that an engine can run. `spec` has the paths of `files`, which are not stored
    yet. `problems` are warnings. `environments`: the Python environment that is shipped to the
    containers of each component, and under "" that of the master; those without one are left out.
    `storage`: the packages by which programs open URLs. `plan`: what it was made of. `tags`: the
    user's, in their order."""

    spec: skein.ApplicationSpec
    job: Job
    private: Private = dataclasses.field(repr=False)
    files: tuple[ShippedFile, ...]
    problems: tuple[Problem, ...]
    environments: Mapping[str, Travelling] = dataclasses.field(default_factory=dict)
    plan: Plan | None = dataclasses.field(default=None, repr=False, compare=False)
    tags: tuple[str, ...] = ()
    storage: Travelling | None = None

    @property
    def archives(self) -> tuple[Travelling, ...]:
        """What is shipped besides `files`."""
        storage = () if self.storage is None else (self.storage,)
        return (*self.environments.values(), *storage)


def compile_application(package: AppPackage, options: CompileOptions) -> Compiled:
    """Compiles `package`. Equal input gives equal output, to the byte. Nothing is written, and only
    shipped files are read. InvalidPackageError with every error and its position; UsageError and
    UnavailableError for options that cannot be used, and for files that are missing or too large to
    ship."""
    check_options(options)
    components = {name: _planned(package, options, name) for name in _submitted(package)}
    master = find_python(package, options)
    pythons = {"": master, **{name: plan.python for name, plan in components.items()}}
    problems = _accepted(
        (
            *check_resources(package, options.maximum),
            *check_credentials(package, options.secrets),
            *check_on_end(package, (*options.secrets, *options.secret_environment)),
            *check_files(package),
            *check_archives(pythons.values(), options),
        )
    )
    user_files = inspect_user_files(package)
    plan = Plan(package, build_job(package, options, components), components, master)
    if options.check is not None:
        problems = _accepted((*problems, *options.check(plan)))
    configured = {name: one.own.environment for name, one in components.items()}
    secrets = {**options.secret_environment, **options.secrets}
    private = build_private(configured, options.environment, secrets)
    shipment = build_shipment(package, options, user_files, plan.job, private)
    pythons = {name: placed(python, options.place) for name, python in pythons.items()}
    travelling = {name: python.travelling for name, python in pythons.items()}
    storage = find_storage(options)
    spec = build_specification(plan, options, shipment, pythons, storage)
    if options.adapt is not None:
        options.adapt(spec, plan, options)
    return Compiled(
        spec=spec,
        job=plan.job,
        private=private,
        files=shipment.all,
        problems=problems,
        environments={name: one for name, one in travelling.items() if one is not None},
        storage=storage,
        plan=plan,
        tags=options.tags,
    )


def _submitted(package: AppPackage) -> list[str]:
    """The components that have resources, also those with 0 instances, in the order of their role
    priority."""
    sized = [c.name for c in package.components if c.name in package.resources]
    return sorted(sized, key=lambda name: package.resources[name].priority)


def _planned(package: AppPackage, options: CompileOptions, name: str) -> ComponentPlan:
    component, values = package.component(name), package.config.components[name]
    own = ComponentSettings(values, name, options.user, options.name)
    image = image_of(component, values, own)
    docker = build_docker(component, own, image) if own.run_mode != LOCAL else None
    python = find_python(package, options, name)
    return ComponentPlan(component, package.resources[name], values, own, image, docker, python)


def _accepted(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """The warnings that were found, sorted. InvalidPackageError when there are errors too."""
    problems = tuple(sorted(set(found)))
    if has_errors(problems):
        raise InvalidPackageError(problems)
    return problems


def build_docker(component: Component, own: ComponentSettings, image: str) -> Docker:
    """The component's container. DockerError for mistakes that the rule docker-container reports
    too."""
    declared, settings = _declared(component), own.settings
    fields = parse_options(own.expand(declared.get("options", "")))
    return Docker(
        image=image,
        mounts=(*_declared_mounts(declared, own), *parse_mounts(settings.text("docker.mounts"))),
        pull=settings.text("docker.pull"),
        pull_timeout=seconds(settings.text("docker.pull.timeout")),
        credential=settings.text("docker.credential"),
        host=settings.text("docker.host"),
        **fields,
    )


def image_of(
    component: Component, values: Mapping[str, ConfigValue], own: ComponentSettings
) -> str:
    """The image that appConfig names, else metainfo's, else the schema's default."""
    written = setting(values, "docker.image")
    image = _declared(component).get("image", "")
    if written is not None and (written.text.strip() and not written.is_default or not image):
        return own.settings.text("docker.image").strip()
    return own.expand(image)


def _declared(component: Component) -> Mapping[str, Any]:
    return component.docker_containers[0] if component.docker_containers else {}


def _declared_mounts(declared: Mapping[str, Any], own: ComponentSettings) -> Iterator[Mount]:
    for written in declared.get("mounts", ()):
        mount = declared_mount(written)
        source, target = own.expand(mount.source), own.expand(mount.target)
        yield dataclasses.replace(mount, source=source, target=target)
