"""The Python of an application's programs: made where it is named by packages, and tried out
before containers are asked for."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tfapp.cli.shell import Shell
from tfapp.compiler.compile import Compiled
from tfapp.compiler.container_main import NEEDED
from tfapp.compiler.docker import LOCAL, MODE
from tfapp.compiler.python import ARCHIVE, CODE, EXECUTABLE, PACKAGES, RUNNER
from tfapp.compiler.settings import effective
from tfapp.contract.job import ComponentJob
from tfapp.engines.base import Engine
from tfapp.environment import build, unpacked
from tfapp.environment.archive import UnfitError
from tfapp.environment.probe import CannotRunError, Told, ask
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.package.model import FILES, AppPackage, ConfigValue
from tfapp.package.rules.missing_entry import ENTRY, TRAINING_ROLES, is_looked_for
from tfapp.problems import Position, Problem

# Where a program changes what it can import, its imports say nothing before it runs.
_OWN_PATHS = (b"sys.path", b"addsitedir")


def made_of_packages(
    package: AppPackage, shell: Shell, environments: Path, dry_run: bool
) -> Path | None:
    """The archive of what site.global.python.packages names, made unless it is there; None
    where it names nothing. With `dry_run`: where it would lie. UnavailableError."""
    value = package.config.global_.get(PACKAGES)
    if value is None:
        return None
    requirements = build.parse_requirements(value.text)
    if dry_run:
        return build.archive_of(requirements, environments, shell.python)
    with _disk(environments):
        return build.build(requirements, environments, shell.python, shell.environ, shell.note)


@dataclasses.dataclass(frozen=True)
class _Interpreter:
    """One that can be asked here. `name` and `at`: what it is called, and where that is said."""

    name: str
    at: Position | None
    command: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()


def check_environment(compiled: Compiled, environments: Path, shell: Shell, engine: Engine) -> None:
    """InvalidPackageError where an interpreter does not start, lacks what tfapp needs, cannot
    read the entry script, or has not what that imports. An interpreter that is on other machines
    only is asked by the containers themselves."""
    package = compiled.package
    if package is None:
        return
    found: set[Problem] = set()
    for component in compiled.job.components:
        if component.instances and component.site.get(MODE, LOCAL) == LOCAL:
            found.update(_check(component, compiled, package, environments, shell, engine))
    if found:
        raise InvalidPackageError(tuple(sorted(found)))


def _check(
    component: ComponentJob,
    compiled: Compiled,
    package: AppPackage,
    environments: Path,
    shell: Shell,
    engine: Engine,
) -> Iterator[Problem]:
    try:
        interpreter = _interpreter(component, compiled, package, environments, shell, engine)
    except UnfitError as error:
        yield Problem(_key(package).at, CODE, f"{compiled.travelling} {error}")
        return
    if interpreter is None:
        return
    entry, source = _entry(component, package)
    own = not engine.sees_home and RUNNER not in package.config.global_
    environ = {k: v for k, v in shell.environ.items() if not k.startswith("PYTHON")}
    environ.update(interpreter.environ)
    try:
        told = ask(interpreter.command, environ, tuple(NEEDED) if own else (), source)
    except CannotRunError as error:
        if error.foreign and not engine.sees_home:
            shell.note(f"{interpreter.name} cannot be tried out here: its interpreter {error}")
        else:
            hint = f"name another interpreter with {EXECUTABLE}"
            if compiled.travelling:
                hint = "pack it anew, on a machine like this one"
            yield Problem(interpreter.at or entry, CODE, f"{interpreter.name} {error}", hint=hint)
        return
    if told.lacking:
        lacking = ", ".join(NEEDED[module] for module in told.lacking)
        message = f"{interpreter.name} lacks {lacking}, which tfapp's own part of a container needs"
        hint = f"install it there, or name another interpreter of the nodes with {RUNNER}"
        yield Problem(interpreter.at or entry, CODE, message, hint=hint)
    if source:
        shipped = _modules_beside(component.site[ENTRY], package)
        if "PYTHONPATH" in compiled.private.env.get(component.name, {}):
            told = dataclasses.replace(told, missing=())
        yield from _findings(told, entry, source, interpreter.name, shipped)


def _findings(
    told: Told, entry: Position, source: bytes, name: str, shipped: set[str]
) -> Iterator[Problem]:
    if told.syntax:
        version = ".".join(map(str, told.version))
        at = Position(entry.file, told.syntax.line, told.syntax.column)
        message = f"{told.syntax.text} (for Python {version} of {name})"
        yield Problem(at, "entry-script", message, hint="mend it, or run it by another Python")
    if any(word in source for word in _OWN_PATHS):
        return
    for missing in told.missing:
        if missing.text not in shipped:
            at = Position(entry.file, missing.line, missing.column)
            message = f"the program imports {missing.text}, which {name} does not have"
            hint = "install it there, or ship it with --files"
            yield Problem(at, "missing-module", message, hint=hint)


def _interpreter(
    component: ComponentJob,
    compiled: Compiled,
    package: AppPackage,
    environments: Path,
    shell: Shell,
    engine: Engine,
) -> _Interpreter | None:
    """What runs the component's programs, None when that is not on this machine."""
    if compiled.travelling is not None:
        archive = compiled.travelling.path
        if archive is None:
            return None
        with _disk(environments):
            if not unpacked.folder_of(archive, environments).exists():
                shell.note(f"unpacks {archive} to try it out: once")
            command, environ = unpacked.interpreter(archive, environments)
        at = _key(package).at
        return _Interpreter(str(archive), at, tuple(command), tuple(environ.items()))
    if not engine.sees_home:
        return None
    value = effective(package, component.name).get(EXECUTABLE)
    python = component.site.get(EXECUTABLE) or compiled.job.python
    return _Interpreter(python, value.at if value else None, (python,))


def _key(package: AppPackage) -> ConfigValue:
    values = package.config.global_
    return values[ARCHIVE if ARCHIVE in values else PACKAGES]


def _entry(component: ComponentJob, package: AppPackage) -> tuple[Position, bytes]:
    """Where the component's program stands, and its source; nothing when it is not Python's, or
    the component does not run it."""
    entry = component.site.get(ENTRY, "")
    inside = FILES + entry
    declared = package.component(component.name)
    trains = component.role in TRAINING_ROLES and is_looked_for(declared, package)
    if not trains or not entry.endswith(".py"):
        return Position(package.source.label), b""
    if entry in package.user_files:
        path = package.user_files[entry]
        return Position(str(path)), path.read_bytes()
    if inside in package.source.files():
        return Position(f"{package.source.label}/{inside}"), package.source.read(inside)
    return Position(package.source.label), b""


def _modules_beside(entry: str, package: AppPackage) -> set[str]:
    """What the program can import because it is shipped with it, in its own folder."""
    inside = (name[len(FILES) :] for name in package.source.files() if name.startswith(FILES))
    folder = PurePosixPath(entry).parent
    found = set()
    for name in (*inside, *package.user_files):
        path = PurePosixPath(name)
        if folder in path.parents:
            found.add(path.relative_to(folder).parts[0].partition(".")[0])
    return found


@contextlib.contextmanager
def _disk(environments: Path) -> Iterator[None]:
    """Turns what a disk refuses into UnavailableError."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"a Python environment cannot be kept in {environments}: {error.strerror}",
            "Free some space there, or set TFAPP_HOME to a folder on another disk.",
        ) from error
