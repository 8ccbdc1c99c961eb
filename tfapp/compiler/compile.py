"""AppPackage + options -> everything that is submitted. Writes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfapp.compiler.contents import check_files, inspect_user_files
from tfapp.compiler.job import build_job, submitted
from tfapp.compiler.options import CompileOptions, check_options
from tfapp.compiler.private import build_private, check_credentials
from tfapp.compiler.python import Travelling, check_archive, environments
from tfapp.compiler.resources import check_resources
from tfapp.compiler.settings import ComponentSettings
from tfapp.compiler.shipment import ShippedFile, build_shipment
from tfapp.compiler.specification import build_specification
from tfapp.compiler.yarn_docker import check_yarn_docker, yarn_images
from tfapp.contract.job import Job, Private
from tfapp.errors import InvalidPackageError
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    import skein

__all__ = ["CompileOptions", "Compiled", "ShippedFile", "compile_application"]


@frozen
class Compiled:
    """An application that an engine can run. `spec` has the paths of `files`, which are not stored
    yet. `problems` are warnings. `environments`: the Python environments that are shipped, see
    tfapp.compiler.python. `package`: the package that was compiled. `tags`: the user's, in their
    order."""

    spec: skein.ApplicationSpec
    job: Job
    private: Private = dataclasses.field(repr=False)
    files: tuple[ShippedFile, ...]
    problems: tuple[Problem, ...]
    environments: Mapping[str, Travelling] = dataclasses.field(default_factory=dict)
    package: AppPackage | None = dataclasses.field(default=None, repr=False)
    tags: tuple[str, ...] = ()


def compile_application(package: AppPackage, options: CompileOptions) -> Compiled:
    """Compiles `package`. Equal input gives equal output, to the byte. Nothing is written, and only
    shipped files are read. InvalidPackageError with every error and its position; UsageError and
    UnavailableError for options that cannot be used, and for files that are missing or too large to
    ship."""
    check_options(options)
    settings = {
        component.name: ComponentSettings(package, component.name, options.user, options.name)
        for component in submitted(package)
    }
    found = (*check_application(package, options), *check_yarn_docker(package, settings))
    problems = _accepted(found)
    user_files = inspect_user_files(package)
    job = build_job(package, options, settings)
    if options.check is not None:
        problems = _accepted((*problems, *options.check(package, job)))
    configured = {name: own.environment for name, own in settings.items()}
    secrets = {**options.secret_environment, **options.secrets}
    private = build_private(configured, options.environment, secrets)
    shipment = build_shipment(package, options, user_files, job, private)
    python = environments(package, options)
    images = yarn_images(package, settings)
    return Compiled(
        spec=build_specification(package, options, job, shipment, images, python),
        job=job,
        private=private,
        files=shipment.all,
        problems=problems,
        environments=python,
        package=package,
        tags=options.tags,
    )


def _accepted(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """The warnings that were found, sorted. InvalidPackageError when there are errors too."""
    problems = tuple(sorted(set(found)))
    if has_errors(problems):
        raise InvalidPackageError(problems)
    return problems


def check_application(package: AppPackage, options: CompileOptions) -> Iterator[Problem]:
    """Problems that keep a valid package from being compiled with these options."""
    yield from check_resources(package, options.maximum)
    yield from check_credentials(package, options.secrets)
    yield from check_files(package)
    yield from check_archive(package, options)
