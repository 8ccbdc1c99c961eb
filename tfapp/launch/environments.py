"""The Python environment of an application's programs: made from packages where the application
names some, and tried out before containers are requested."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tfapp.compiler.compile import Compiled
from tfapp.compiler.container_main import NEEDED
from tfapp.compiler.python import CODE, key_of_travelling
from tfapp.compiler.settings import effective
from tfapp.contract.job import ComponentJob
from tfapp.engines.base import Engine
from tfapp.environment import build, unpacked
from tfapp.environment.archive import UnfitError
from tfapp.environment.imports import AT_LOAD, imports_of
from tfapp.environment.probe import CannotRunError, ask
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller
from tfapp.package.model import FILES, LOCAL, AppPackage, setting
from tfapp.package.rules.scripts import TRAINING_ROLES, is_looked_for
from tfapp.problems import ERROR, WARNING, Position, Problem, has_errors, text_report

# Where a program changes what it can import, its imports say nothing before it runs.
_OWN_PATHS = (b"sys.path", b"addsitedir")


def made_environment(
    package: AppPackage, engine: Engine, caller: Caller, environments: Path, dry_run: bool
) -> Path | None:
    """The archive for site.global.python.packages and .version. It is made unless it exists
    already; None when they are not set. With `dry_run` only its path is returned. UnavailableError
    when it cannot be made."""
    keys = ("python.packages", "python.version", "python.platform")
    found = [setting(package.config.global_, key) for key in keys]
    packages, version, there = (value.text if value else "" for value in found)
    if not (packages or version):
        return None
    wanted = build.wanted(packages, version, there, engine.sees_home)
    if dry_run:
        return build.archive_of(wanted, environments, caller.python, caller.environ)
    with _disk(environments):
        return build.build(wanted, environments, caller.python, caller.environ, caller.note)


@frozen
class _Interpreter:
    """An interpreter that can be tried out on this machine. `name`: what messages call it; `at`:
    where it is configured; `packed`: whether it is in an environment that travels."""

    name: str
    at: Position | None
    command: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()
    packed: bool = False


@frozen
class Needed:
    """A module that a program needs. `at`: where it is imported or used. `sure`: whether the
    program fails without it, as far as that is known. `variable`: the variable that holds an object
    of the module, "" where the module is imported."""

    module: str
    at: Position
    sure: bool = True
    variable: str = ""


@frozen
class Needs:
    """What pickled programs need, which their entry scripts do not show, by component: `modules`,
    and the version of Python that has pickled them."""

    modules: Mapping[str, tuple[Needed, ...]] = dataclasses.field(default_factory=dict)
    python: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)


def check_environment(
    compiled: Compiled, environments: Path, caller: Caller, engine: Engine, needs: Needs
) -> None:
    """Tries out the interpreters of the programs. InvalidPackageError where one does not start,
    cannot read the entry script or the pickled function, or lacks a module that tfapp or the
    program needs. A missing module that the program may not need is a note. Interpreters that only
    other machines have are tried by the containers."""
    package = compiled.package
    if package is None:
        return
    check = _Check(compiled, package, environments, caller, engine, needs)
    found: set[Problem] = set()
    for component in compiled.job.components:
        if component.instances and component.settings.text("run.mode") == LOCAL:
            found.update(check.problems(component))
    if has_errors(found):
        raise InvalidPackageError(tuple(sorted(found)))
    if found:
        caller.note(text_report(sorted(found)))


@frozen
class _Check:
    """The check of one application's interpreters."""

    compiled: Compiled
    package: AppPackage
    environments: Path
    caller: Caller
    engine: Engine
    needs: Needs

    def problems(self, component: ComponentJob) -> Iterator[Problem]:
        """The problems of a component's programs."""
        try:
            interpreter = self._interpreter(component)
        except UnfitError as error:
            at = _place(self.package, component.name)
            yield Problem(at, CODE, f"{self.compiled.environments[component.name]} {error}")
            return
        if interpreter is None:
            return
        entry, source = _entry(component, self.package)
        at = interpreter.at or entry
        runner = setting(self.package.config.global_, "python.runner")
        own = () if self.engine.sees_home or runner else tuple(NEEDED)
        needed = self._needed(component, entry, source)
        environ = {k: v for k, v in self.caller.environ.items() if not k.startswith("PYTHON")}
        environ.update(interpreter.environ)
        try:
            modules = (*own, *dict.fromkeys(one.module for one in needed))
            told = ask(interpreter.command, environ, modules, source)
        except CannotRunError as error:
            yield from self._cannot_run(interpreter, error, at)
            return
        if lacking := [NEEDED[module] for module in own if module in told.lacking]:
            message = f"{interpreter.name} lacks {', '.join(lacking)}, which tfapp's own part of a "
            message += "container needs"
            hint = "install it there, or name another interpreter of the nodes with "
            hint += "site.global.python.runner"
            yield Problem(at, CODE, message, hint=hint)
        version = ".".join(map(str, told.version))
        if told.syntax:
            where = Position(entry.file, told.syntax.line, told.syntax.column)
            message = f"{told.syntax.text} (for Python {version} of {interpreter.name})"
            hint = "correct it, or run it by another Python"
            yield Problem(where, "entry-script", message, hint=hint)
        pickled = self.needs.python.get(component.name, told.version[:2])
        if pickled != told.version[:2]:
            by = ".".join(map(str, pickled))
            message = f"the function of {component.name} was pickled by Python {by}, and "
            message += f"{interpreter.name} is Python {version}, which reads other bytecode"
            hint = f"use Python {by} there or {version.rpartition('.')[0]} here, or name the "
            hint += "function by its module: 'module:function'"
            yield Problem(at, CODE, message, hint=hint)
        for one in needed:
            if one.module in told.lacking:
                beside = _beside(self.caller.cwd / one.at.file, one.module, self.caller.cwd)
                yield _missing(one, interpreter, beside)

    def _needed(self, component: ComponentJob, entry: Position, source: bytes) -> list[Needed]:
        """The modules that the component's program needs and that are not shipped."""
        if "PYTHONPATH" in self.compiled.private.env.get(component.name, {}):
            return []
        folder = PurePosixPath(component.settings.text("user.scripts.entry")).parent
        needed: Iterable[Needed]
        if component.name in self.needs.modules:  # a call's entry is below files/, where they are
            folder, needed = PurePosixPath("."), self.needs.modules[component.name]
        elif any(word in source for word in _OWN_PATHS):
            return []
        else:
            needed = [
                Needed(one.module.partition(".")[0], Position(entry.file, one.line, one.column))
                for one in imports_of(source)
                if one.when == AT_LOAD and one.sure
            ]
        shipped = _modules_below(folder, self.package)
        return [one for one in needed if one.module not in shipped]

    def _cannot_run(
        self, interpreter: _Interpreter, error: CannotRunError, at: Position
    ) -> Iterator[Problem]:
        if error.foreign and not self.engine.sees_home:
            name = interpreter.name
            self.caller.note(f"{name} cannot be tried out here: its interpreter {error}")
            return
        hint = "name another interpreter with site.global.python.executable"
        if interpreter.packed:
            hint = "pack it anew, on a machine like this one"
        yield Problem(at, CODE, f"{interpreter.name} {error}", hint=hint)

    def _interpreter(self, component: ComponentJob) -> _Interpreter | None:
        """The interpreter of the component's programs, None when it is not on this machine."""
        travelling = self.compiled.environments.get(component.name)
        if travelling is not None:
            archive = travelling.path
            if archive is None:
                return None
            with _disk(self.environments):
                if not unpacked.folder_of(archive, self.environments).exists():
                    self.caller.note(f"unpacks {archive} to try it out: once")
                command, environ = unpacked.interpreter(archive, self.environments)
            at = _place(self.package, component.name)
            return _Interpreter(str(archive), at, tuple(command), tuple(environ.items()), True)
        if not self.engine.sees_home:
            return None
        value = setting(effective(self.package, component.name), "python.executable")
        python = component.settings.text("python.executable") or component.python
        return _Interpreter(python, value.at if value else None, (python,))


def _beside(program: Path, module: str, cwd: Path) -> str:
    """The arguments of --files that would ship a module that lies beside a program. "" where there
    is no such module."""
    name = module.partition(".")[0]
    folder = program.parent
    shown = folder.relative_to(cwd) if folder.is_relative_to(cwd) else folder
    if (folder / f"{name}.py").is_file():
        return f"--files {shown / name}.py"
    if any((folder / name).glob("*.py")):
        # A folder's content is shipped, not the folder itself.
        return f"--files {shown}, the folder above {name}/"
    return ""


def _missing(needed: Needed, interpreter: _Interpreter, beside: str) -> Problem:
    module = needed.module
    message = f"the program imports {module}, which {interpreter.name} does not have"
    if needed.variable:
        message = f"`{needed.variable}` needs {module}, which {interpreter.name} does not have"
    hint = f"add {_distribution(module)} to packages (site.global.python.packages), install it "
    hint += "there, or ship it with --files"
    if beside:
        hint = f"it lies beside the program: ship it with {beside}"
    return Problem(needed.at, "missing-module", message, ERROR if needed.sure else WARNING, hint)


def _distribution(module: str) -> str:
    """The name that pip uses for the package of a module, as far as this Python knows it."""
    metadata = importlib.import_module("importlib.metadata")  # slow to load
    known: Mapping[str, list[str]] = getattr(
        metadata, "packages_distributions", dict
    )()  # from 3.10 on
    return known.get(module.partition(".")[0], [module])[0]


def _place(package: AppPackage, component: str) -> Position:
    """The position of the configuration of the environment that is shipped to `component`."""
    return effective(package, component)[key_of_travelling(package, component)].at


def _entry(component: ComponentJob, package: AppPackage) -> tuple[Position, bytes]:
    """The position of the component's program, and its source. No source when it is not a Python
    file, or when the component does not run it."""
    entry = component.settings.text("user.scripts.entry")
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


def _modules_below(folder: PurePosixPath, package: AppPackage) -> set[str]:
    """The modules, by their dotted names, that are shipped in a folder below files/."""
    inside = (name[len(FILES) :] for name in package.source.files() if name.startswith(FILES))
    found: set[str] = set()
    for name in (*inside, *package.user_files):
        path = PurePosixPath(name)
        if folder in path.parents:
            *parents, last = path.relative_to(folder).parts
            parts = [*parents, last.partition(".")[0]]
            found.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return found


@contextlib.contextmanager
def _disk(environments: Path) -> Iterator[None]:
    """Turns OSErrors into UnavailableError."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"a Python environment cannot be kept in {environments}: {error.strerror}",
            "Free some space there, or set TFAPP_HOME to a folder on another disk.",
        ) from error
