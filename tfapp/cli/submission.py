"""From a package and flags to an application that an engine runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.cli.environments import check_environment, made_of_packages
from tfapp.cli.reports import text_report
from tfapp.cli.request import Request
from tfapp.cli.shell import Shell
from tfapp.compiler.compile import Compiled, CompileOptions, compile_application
from tfapp.compiler.credentials import read_credentials
from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.store import PRIVATE_KEY_FILE, keeping_files, load_private_key
from tfapp.engines.base import Application, Engine
from tfapp.engines.leftovers import CACHE, delete_unused
from tfapp.errors import InvalidPackageError
from tfapp.package.load import load_package
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    from tfapp.package.model import AppPackage

CHECKPOINT_KEY = "site.global.user.checkpoint.prefix"


def compile_request(
    request: Request, shell: Shell, engine: Engine, dry_run: bool = False
) -> Compiled:
    """Loads, checks and compiles for `engine`. Warnings go to standard error. With `dry_run`
    nothing at all is written, else the key of the cache. InvalidPackageError when there are
    errors."""
    package = _load(request, shell, engine)
    cache = shell.home / CACHE
    archive = made_of_packages(package, shell, cache / "environments", dry_run)
    secrets, problems = read_credentials(package.config.credentials, shell.environ, shell.cwd)
    _accept(problems, shell)
    options = CompileOptions(
        name=request.name,
        user=shell.user,
        python=shell.python,
        python_archive=archive,
        cache=cache,
        queue=request.queue,
        tags=request.tags,
        secrets=secrets,
        environment=request.environment,
        runtime=read_runtime(),
        private_key=_present_key(cache) if dry_run else load_private_key(cache),
    )
    compiled = compile_application(package, engine.options(options, package))
    _accept(compiled.problems, shell)
    return compiled


def submit(request: Request, engine: Engine, shell: Shell) -> Application:
    """Compiles `request` and launches it on `engine`. UnavailableError when the engine cannot
    run it, ExistsError when the name is taken."""
    compiled = compile_request(request, shell, engine)
    engine.check(compiled)
    check_environment(compiled, shell.home / CACHE / "environments", shell, engine)
    try:
        with keeping_files(shell.home / CACHE):
            engine.ship(compiled)
            return engine.create(request.name, compiled)
    except BaseException:  # secrets are among them
        delete_unused(shell.home, (file.path.name for file in compiled.files))
        raise


def _load(request: Request, shell: Shell, engine: Engine) -> AppPackage:
    loaded = load_package(
        request.appdef,
        template=request.template,
        resources=request.resources,
        overrides=request.overrides,
        user_files=request.files,
        programs=request.programs,
    )
    if loaded.package is None:
        raise InvalidPackageError(loaded.problems)
    package = loaded.package
    if not package.config.has(CHECKPOINT_KEY):
        package = _with_checkpoints(package, request.name, shell, engine)
    _accept(loaded.problems, shell)
    return package


def _with_checkpoints(package: AppPackage, name: str, shell: Shell, engine: Engine) -> AppPackage:
    """With a place for them under TFAPP_HOME, where the containers see that."""
    if not engine.sees_home:
        shell.note(f"checkpoints are lost with their container ({CHECKPOINT_KEY} is not set)")
        return package
    prefix = str(shell.home / "checkpoints")
    shell.note(f"checkpoints go to {prefix}/{name} ({CHECKPOINT_KEY} is not set)")
    config = package.config.with_option(CHECKPOINT_KEY, prefix)
    return dataclasses.replace(package, config=config)


def _accept(problems: Sequence[Problem], shell: Shell) -> None:
    """Goes on with warnings, which are shown, but not with errors."""
    if has_errors(problems):
        raise InvalidPackageError(tuple(problems))
    if problems:
        shell.note(text_report(problems))


def _present_key(cache: Path) -> bytes:
    """The cache's key, or, while it has none, one of this moment."""
    try:
        return (cache / PRIVATE_KEY_FILE).read_bytes()
    except OSError:
        return os.urandom(32)
