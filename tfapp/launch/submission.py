"""Compiles a requested application and launches it on an engine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.compiler.compile import Compiled, CompileOptions, compile_application
from tfapp.compiler.credentials import read_credentials
from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.store import (
    CACHE,
    PRIVATE_KEY_FILE,
    keeping_files,
    load_private_key,
    store_files,
)
from tfapp.contract.names import trains_alone
from tfapp.disk import make_private, write_atomically, writing
from tfapp.engines.base import Application, Engine
from tfapp.engines.definition import check_tags
from tfapp.engines.owner import owner_certificate
from tfapp.engines.refusals import DamagedError
from tfapp.engines.tidying import delete_unused, tidy
from tfapp.engines.yarn import specification
from tfapp.errors import ExistsError, InvalidPackageError, UnknownApplicationError
from tfapp.frozen import frozen
from tfapp.launch import checkpoints, on_end
from tfapp.launch.caller import Caller
from tfapp.launch.commit import commit_of
from tfapp.launch.environments import (
    CALL_FOLDER,
    Needs,
    check_environment,
    made_environment,
    needs_tensorflow,
    unpassed_variables,
)
from tfapp.launch.follow import telling
from tfapp.launch.storage import is_wanted, made_storage
from tfapp.package.load import Loaded, load_package
from tfapp.package.model import setting
from tfapp.package.overrides import Overrides
from tfapp.package.write import write_package
from tfapp.problems import WARNING, Problem, has_errors, text_report
from tfapp.schema.failure import KNOWN_TO_FIT

if TYPE_CHECKING:
    from tfapp.package.model import AppPackage

COMPILED = "compiled"  # below TFAPP_HOME
MOST_KNOWN = 1000  # digests of documents that fit their schema; then all are forgotten
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
    called: Mapping[str, str] = dataclasses.field(default_factory=dict)  # see CompileOptions


def compile_request(
    request: Request,
    caller: Caller,
    engine: Engine,
    dry_run: bool = False,
    kept: Path | None = None,
) -> Compiled:
    """Loads, checks and compiles for `engine`, and notes warnings. The shipped files will be in the
    cache, or permanently in the folder `kept` of this machine. Writes only the cache's key and the
    owner's, and with `dry_run` nothing. InvalidPackageError if there are errors."""
    cache = caller.home / CACHE
    environments = cache / "environments"
    with remembering(cache / "known-to-fit", keep=not dry_run):
        package = _checked(request, caller)
    variables = (*request.environment.values(), *request.secret_environment.values())
    package, storage = _with_storage(
        package,
        checkpoints.home_of(engine, caller, needs_tensorflow(package, request.needs)),
        caller,
        lambda found: made_storage(found, engine, caller, environments, dry_run, variables),
    )
    archive = made_environment(package, engine, caller, environments, dry_run, request.needs)
    secrets, problems = read_credentials(package.config.credentials, caller.environ, caller.cwd)
    _accept(problems, caller)
    options = CompileOptions(
        name=request.name,
        user=caller.user,
        python=caller.python,
        python_archive=archive,
        storage=storage,
        cache=cache,
        tags=request.tags,
        called=request.called,
        given=request.overrides.in_words(),
        commit=commit_of(_source_folder(request, package, caller.cwd), caller.environ),
        secrets=secrets,
        environment=request.environment,
        secret_environment=request.secret_environment,
        runtime=read_runtime(),
        private_key=_present_key(cache) if dry_run else load_private_key(cache),
        owner="" if dry_run else owner_certificate(caller.home),
        # Of whichever engine: Skein can submit the specification to YARN.
        check=specification.check,
        adapt=specification.adapt,
    )
    check_tags(options.tags)
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
    more = (*unpassed_variables(compiled, caller), *_data_not_there(compiled, engine))
    _accept([*warnings, *more], caller)
    job = compiled.job
    checkpoints.prepare(job.checkpoint_dir, engine, caller, fresh, job.storage_schemes)
    check_environment(compiled, caller.home / CACHE / "environments", caller, engine, request.needs)
    _tell_checkpoints(compiled, request.name, caller, engine)
    try:
        with keeping_files(caller.home / CACHE):
            engine.ship(compiled)
            application = engine.create(request.name, compiled)
        on_end.remember(caller, application, compiled.job)
    except BaseException:  # secrets are among them
        delete_unused(caller.home, (file.path.name for file in compiled.files))
        raise
    tidy(caller.home, time.time())
    return application


def _data_not_there(compiled: Compiled, engine: Engine) -> Iterator[Problem]:
    """A warning for a folder of data that a program will not find."""
    package = compiled.plan.package if compiled.plan is not None else None
    value = setting(package.config.global_, "user.data.dir") if package is not None else None
    if package is None or value is None or "://" in value.text or "$" in value.text:
        return
    text = value.text
    if text and not os.path.isabs(text):
        first = text.split("/")[0]
        if not any(name.split("/")[0] == first for name in package.user_files):
            message = f"{text!r} is relative: it is looked for in each program's working folder"
            hint = "give an absolute path or a URL, or ship the folder with --files"
            yield Problem(value.at, "data-folder", message, WARNING, hint)
    elif text and engine.sees_home and not os.path.exists(text):
        yield Problem(value.at, "data-folder", f"there is no {text} on this machine", WARNING)


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


def load_request(request: Request) -> Loaded:
    """The package with the changes of the request, and all of its problems."""
    return load_package(
        request.appdef,
        template=request.template,
        resources=request.resources,
        overrides=request.overrides,
        user_files=request.files,
        programs=request.programs,
    )


def _checked(request: Request, caller: Caller) -> AppPackage:
    loaded = load_request(request)
    if loaded.package is None:
        raise InvalidPackageError(loaded.problems)
    _accept(loaded.problems, caller)
    return loaded.package


def _source_folder(request: Request, package: AppPackage, cwd: Path) -> Path:
    """The folder of the user's program, else of the package that brings it."""
    prefix = f"{CALL_FOLDER}/"
    own = {name: path for name, path in request.files.items() if not name.startswith(prefix)}
    entry = setting(package.config.global_, "user.scripts.entry")
    modules = (path for name, path in own.items() if name.endswith(".py"))
    program = own.get(entry.text if entry else "") or next(modules, None)
    if program is None and request.programs:
        return cwd / request.appdef
    return (cwd / program).resolve().parent if program else cwd


def _with_storage(
    package: AppPackage, home: str, caller: Caller, made: Callable[[AppPackage], Path | None]
) -> tuple[AppPackage, Path | None]:
    """The package with a checkpoint folder in `home`, if it names none; and the packages by which
    programs open URLs, which `made` makes."""
    if package.config.has(CHECKPOINT_KEY) or not home:
        return package, made(package)
    saving = dataclasses.replace(package, config=package.config.with_option(CHECKPOINT_KEY, home))
    reason = "site.global.storage is false"
    if "://" not in home or is_wanted(package, True):
        try:
            return saving, made(saving)
        except InvalidPackageError as error:
            reason = error.problems[0].message
    caller.note(f"checkpoints do not go to {home}: {reason}")
    return package, made(package)


def _tell_checkpoints(compiled: Compiled, name: str, caller: Caller, engine: Engine) -> None:
    """Says where checkpoints go if the user has not."""
    package = compiled.plan.package if compiled.plan is not None else None
    home = checkpoints.home_of(engine, caller)
    if home and compiled.job.checkpoint_dir == f"{home}/{name}":
        caller.note(
            f"checkpoints go to {compiled.job.checkpoint_dir} ({CHECKPOINT_KEY} is not set)"
        )
    elif package is not None and not package.config.has(CHECKPOINT_KEY):
        caller.note(_lost_checkpoints(package))


def _lost_checkpoints(package: AppPackage) -> str:
    """What a restart means where checkpoints stay in the containers."""
    roles = [c.role for c in package.components for _ in range(package.instances(c.name))]
    after = "after a restart in another container the training begins anew"
    if not trains_alone(roles):
        after = "after any restart all instances begin anew, with empty folders"
    return (
        "what is saved in ${CHECKPOINT_DIR} is lost with its container, and no other instance "
        f"sees it: {after} ({CHECKPOINT_KEY} is not set: it takes "
        "a URL, such as s3://bucket/folder, or a folder that all see)"
    )


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


@contextlib.contextmanager
def remembering(path: Path, keep: bool) -> Iterator[None]:
    """Skips the check of data that fitted its schema before, according to the file `path`. With
    `keep`, data that is found to fit now is added to the file. A failure to write it is ignored."""
    try:
        known = set(path.read_text("ascii").split())
    except (OSError, UnicodeDecodeError):
        known = set()
    before = frozenset(known)
    token = KNOWN_TO_FIT.set(known)
    try:
        yield
    finally:
        KNOWN_TO_FIT.reset(token)
    if keep and known != before:
        kept = known if len(known) <= MOST_KNOWN else known - before
        with contextlib.suppress(OSError):
            write_atomically(make_private(path.parent) / path.name, "\n".join(kept).encode())


def write_request(request: Request, folder: Path, caller: Caller) -> Path:
    """Writes what `request` means as a package to `folder`, and returns it. Nothing secret is
    written. ExistsError unless `folder` is new or empty, InvalidPackageError, UnavailableError
    when it cannot be written."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ExistsError(f"{folder} exists and is not an empty folder", "Choose another one.")
    existed = folder.exists()
    try:
        with writing(folder):
            problems = write_package(folder, load_request(request), request.environment)
    except BaseException:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if problems:
        caller.note(text_report(problems))
    if request.secret_environment:
        names = ", ".join(sorted(request.secret_environment))
        caller.note(f"not written, as they are secret: {names}; give them by --secret-env-file")
    return folder
