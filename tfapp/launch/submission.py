"""Compiles a requested application and launches it on an engine."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.compiler.compile import Compiled, CompileOptions, compile_application
from tfapp.compiler.credentials import read_credentials
from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.store import PRIVATE_KEY_FILE, keeping_files, load_private_key, store_files
from tfapp.engines.base import Application, Engine
from tfapp.engines.leftovers import CACHE, delete_unused
from tfapp.engines.refusals import DamagedError
from tfapp.engines.tidying import tidy
from tfapp.errors import ExistsError, InvalidPackageError, UnknownApplicationError
from tfapp.frozen import frozen
from tfapp.launch import checkpoints
from tfapp.launch.caller import Caller
from tfapp.launch.environments import Needs, check_environment, made_environment
from tfapp.launch.known_to_fit import remembering
from tfapp.launch.stopping import telling
from tfapp.package.load import load_package
from tfapp.package.overrides import Overrides
from tfapp.problems import Problem, has_errors, text_report

if TYPE_CHECKING:
    from tfapp.package.model import AppPackage

COMPILED = "compiled"  # below TFAPP_HOME
CHECKPOINT_KEY = "site.global.user.checkpoint.prefix"


@frozen
class Request:
    """A package, and the settings of a command or a call for it."""

    name: str
    appdef: Path
    template: Path | None = None
    resources: Path | None = None
    overrides: Overrides = dataclasses.field(default_factory=Overrides)
    files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    programs: bool = True  # also the package's own
    engine_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    secret_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    needs: Needs = Needs()


def compile_request(
    request: Request,
    caller: Caller,
    engine: Engine,
    dry_run: bool = False,
    kept: Path | None = None,
) -> Compiled:
    """Loads, checks and compiles for `engine`, and notes warnings. The shipped files will be in the
    cache, or permanently in the folder `kept` of this machine. Writes only the cache's key, and
    with `dry_run` nothing. InvalidPackageError if there are errors."""
    cache = caller.home / CACHE
    with remembering(cache / "known-to-fit", keep=not dry_run):
        package = _load(request, caller, engine)
    archive = made_environment(package, engine, caller, cache / "environments", dry_run)
    secrets, problems = read_credentials(package.config.credentials, caller.environ, caller.cwd)
    _accept(problems, caller)
    options = CompileOptions(
        name=request.name,
        user=caller.user,
        python=caller.python,
        python_archive=archive,
        cache=cache,
        tags=request.tags,
        secrets=secrets,
        environment=request.environment,
        secret_environment=request.secret_environment,
        runtime=read_runtime(),
        private_key=_present_key(cache) if dry_run else load_private_key(cache),
    )
    options = dataclasses.replace(options, **request.engine_options)
    options = engine.options(options, package)
    if kept is not None:
        options = dataclasses.replace(options, cache=kept, place="")
    compiled = compile_application(package, options)
    _accept(compiled.problems, caller)
    return compiled


def compile_for_skein(request: Request, caller: Caller, engine: Engine) -> Compiled:
    """Compiles a specification that the user can submit with Skein at any time. Its files are in
    TFAPP_HOME/compiled, and no command deletes them. UnavailableError if they cannot be written;
    InvalidPackageError."""
    compiled = compile_request(request, caller, engine, kept=caller.home / COMPILED)
    store_files(compiled.files)
    return compiled


def submit(
    request: Request, engine: Engine, caller: Caller, replace: bool = False, fresh: bool = False
) -> Application:
    """Compiles `request` and launches it on `engine`. `replace`: an application of this name is
    destroyed, once the package has no errors. `fresh`: checkpoints of an earlier application are
    moved aside. InvalidPackageError; UnavailableError if the engine cannot run it; ExistsError if
    the name is taken."""
    compiled = compile_request(request, caller, engine)
    try:
        warnings = engine.check(compiled)
    except ExistsError:
        if not replace:
            raise
        clear_away(request.name, engine, caller)
        warnings = engine.check(compiled)
    else:
        if replace:
            clear_away(request.name, engine, caller)
    _accept(warnings, caller)
    checkpoints.prepare(compiled.job.checkpoint_dir, engine, caller, fresh)
    check_environment(compiled, caller.home / CACHE / "environments", caller, engine, request.needs)
    try:
        with keeping_files(caller.home / CACHE):
            engine.ship(compiled)
            application = engine.create(request.name, compiled)
    except BaseException:  # secrets are among them
        delete_unused(caller.home, (file.path.name for file in compiled.files))
        raise
    tidy(caller.home, time.time())
    return application


def clear_away(name: str, engine: Engine, caller: Caller) -> None:
    """Stops, with its grace, and destroys the application `name`, if there is one."""
    try:
        found = engine.find(name)
        if found.live:
            with telling(engine, found, caller):
                engine.stop(name, "replaced by another of its name")
    except UnknownApplicationError:
        return
    except DamagedError:  # only its destruction is left
        pass
    engine.destroy(name)
    caller.note(f"the earlier {name} is destroyed")


def _load(request: Request, caller: Caller, engine: Engine) -> AppPackage:
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
        package = _with_checkpoints(package, request.name, caller, engine)
    _accept(loaded.problems, caller)
    return package


def _with_checkpoints(package: AppPackage, name: str, caller: Caller, engine: Engine) -> AppPackage:
    """The package with a checkpoint folder under TFAPP_HOME, if the containers see that folder."""
    if not engine.sees_home:
        caller.note(f"checkpoints are lost with their container ({CHECKPOINT_KEY} is not set)")
        return package
    prefix = str(caller.home / checkpoints.PLACE)
    caller.note(f"checkpoints go to {prefix}/{name} ({CHECKPOINT_KEY} is not set)")
    config = package.config.with_option(CHECKPOINT_KEY, prefix)
    return dataclasses.replace(package, config=config)


def _accept(problems: Sequence[Problem], caller: Caller) -> None:
    """Raises InvalidPackageError if there are errors; notes warnings."""
    if has_errors(problems):
        raise InvalidPackageError(tuple(problems))
    if problems:
        caller.note(text_report(problems))


def _present_key(cache: Path) -> bytes:
    """The key of the cache, or a random one if it has none yet."""
    try:
        return (cache / PRIVATE_KEY_FILE).read_bytes()
    except OSError:
        return os.urandom(32)
