"""The Python environment of an application's programs: made from packages where the application
names some, and tried out before containers are requested."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tfapp.compiler.compile import Compiled
from tfapp.compiler.credentials import is_free_name
from tfapp.compiler.plan import Plan
from tfapp.compiler.python import CODE
from tfapp.contract.job import ComponentJob
from tfapp.contract.needs import NEEDED
from tfapp.disk import using_cache
from tfapp.engines import runs_images
from tfapp.engines.base import Engine
from tfapp.engines.machine.starter import inherited
from tfapp.environment import additions, build, unpacked
from tfapp.environment.archive import UnfitError
from tfapp.environment.imports import AT_LOAD, imports_of, variables_of
from tfapp.environment.probe import CannotRunError, ask
from tfapp.errors import InvalidPackageError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller, shown
from tfapp.package.model import FILES, LOCAL, AppPackage, setting
from tfapp.package.rules.scripts import TRAINING_ROLES, is_looked_for, runs_as_ours
from tfapp.problems import ERROR, WARNING, Position, Problem, has_errors, text_report

_OF_TENSORFLOW = ("tensorflow", "keras", "tf_keras")

CALL_FOLDER = "tfapp-call"  # below files/: what a Python call ships besides the user's files

# Variables that programs get from tfapp unless the user sets them.
OF_EVERY_PROGRAM = ("CUDA_VISIBLE_DEVICES", "PYTHONUNBUFFERED", "TF_USE_LEGACY_KERAS")

# Where a program changes what it can import, its imports say nothing before it runs.
OWN_PATHS = (b"sys.path", b"addsitedir")


def made_environment(
    package: AppPackage,
    engine: Engine,
    caller: Caller,
    environments: Path,
    dry_run: bool,
    needs: Needs,
) -> Path | None:
    """The archive for site.global.python.packages and .version. It is made unless it exists
    already; None when they are not set. With `dry_run` only its path is returned. UnavailableError
    when it cannot be made."""
    wanted = _wanted_environment(package, engine, needs)
    if wanted is None:
        return None
    if dry_run:
        return build.archive_of(wanted, environments, caller.python, caller.environ)
    with using_cache(environments):
        return build.build(wanted, environments, caller.python, caller.environ, caller.note)


def _wanted_environment(package: AppPackage, engine: Engine, needs: Needs) -> build.Wanted | None:
    """The environment for the package's keys. It is added to what programs find without them: to
    the packages of this interpreter or of the image where it can link to their interpreter, else
    to TensorFlow, where the programs need it."""
    keys = ("python.packages", "python.version", "python.platform")
    found = [setting(package.config.global_, key) for key in keys]
    packages, version, there = (value.text if value else "" for value in found)
    if not (packages or version):
        return None
    wanted = build.wanted(packages, version, there, engine.sees_home)
    tensorflow = additions.tensorflow_for(wanted.requirements)
    if not tensorflow:  # one is named: the environment stands alone
        return wanted
    if not wanted.version and runs_images(engine.name):
        return dataclasses.replace(wanted, added=build.THEIRS)
    if needs_tensorflow(package, needs):
        wanted = dataclasses.replace(wanted, kept=tensorflow)
    if not wanted.version and engine.sees_home:
        return dataclasses.replace(wanted, added=build.MINE, to=additions.installed())
    return wanted


def needs_tensorflow(package: AppPackage, needs: Needs) -> bool:
    """Whether the programs need TensorFlow: those of a Python call by what they import, others if
    their component's script is about it."""
    if any(name.startswith(f"{CALL_FOLDER}/") for name in package.user_files):
        modules = {one.module for each in needs.modules.values() for one in each}
        return any(name.partition(".")[0] in _OF_TENSORFLOW for name in modules)
    scripts = {one.script for one in package.components if package.instances(one.name)}
    return any(b"tensorflow" in package.source.read(script) for script in scripts)


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
    of the module, "" where the module is imported. `within`: the package that it would be in and
    that is shipped, "" where none is."""

    module: str
    at: Position
    sure: bool = True
    variable: str = ""
    within: str = ""


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
    if compiled.plan is None:
        return
    check = _Check(compiled, compiled.plan, environments, caller, engine, needs)
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
    compiled: Compiled
    plan: Plan
    environments: Path
    caller: Caller
    engine: Engine
    needs: Needs

    def problems(self, component: ComponentJob) -> Iterator[Problem]:
        try:
            interpreter = self._interpreter(component)
        except UnfitError as error:
            found = self.compiled.environments[component.name]
            ours = found.path is not None and found.path.parent == self.environments
            hint = "delete it, and it is made again" if ours else ""
            yield Problem(found.at, CODE, f"{found} {error}", hint=hint)
            return
        if interpreter is None:
            return
        package = self.plan.package
        entry, source = _entry(component, package)
        at = interpreter.at or entry
        runner = setting(package.config.global_, "python.runner")
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
        absent = set(told.lacking)
        for one in needed:
            first = one.module.partition(".")[0]
            if one.module in absent and (one.sure or first not in absent - {one.module}):
                yield _missing(one, interpreter, _where(one, self.caller))

    def _needed(self, component: ComponentJob, entry: Position, source: bytes) -> list[Needed]:
        """The modules that the component's program needs and that are not shipped."""
        if "PYTHONPATH" in self.compiled.private.env.get(component.name, {}):
            return []
        program = component.settings.text("user.scripts.entry")
        folder = PurePosixPath(program).parent
        always = self._always_needed(component, program, entry)
        needed: Iterable[Needed]
        if component.name in self.needs.modules:  # a call's entry is below files/, where they are
            folder, needed = PurePosixPath("."), self.needs.modules[component.name]
        elif any(word in source for word in OWN_PATHS):
            return always
        else:
            needed = [
                Needed(name, Position(entry.file, one.line, one.column), name == first)
                for one in imports_of(source)
                if one.when == AT_LOAD and one.sure and (first := one.module.partition(".")[0])
                for name in dict.fromkeys((first, one.module))
            ]
        shipped = _modules_below(folder, self.plan.package)
        found = [
            dataclasses.replace(one, within=first) if first in shipped else one
            for one in needed
            if one.module not in shipped and (first := one.module.partition(".")[0])
        ]
        return found if any(one.module == "tensorflow" for one in found) else [*found, *always]

    def _always_needed(self, component: ComponentJob, program: str, at: Position) -> list[Needed]:
        """The script of tfapp's own package runs no Python program without TensorFlow, but for the
        functions of a call."""
        declared = self.plan.package.component(component.name)
        if not program.endswith(".py") or program.startswith(f"{CALL_FOLDER}/"):
            return []
        if not runs_as_ours(declared, self.plan.package):
            return []
        return [Needed("tensorflow", at, variable=declared.script)]

    def _cannot_run(
        self, interpreter: _Interpreter, error: CannotRunError, at: Position
    ) -> Iterator[Problem]:
        if error.foreign and not self.engine.sees_home:
            name = interpreter.name
            self.caller.note(f"{name} cannot be tried out here: its interpreter {error}")
            return
        hint = "name another interpreter with site.global.python.executable"
        if interpreter.packed:
            hint = f"pack it anew, on a machine like this one; or delete {self.environments}, if "
            hint += "somebody has changed what is unpacked there"
        yield Problem(at, CODE, f"{interpreter.name} {error}", hint=hint)

    def _interpreter(self, component: ComponentJob) -> _Interpreter | None:
        """The interpreter of the component's programs, None when it is not on this machine."""
        travelling = self.compiled.environments.get(component.name)
        if travelling is not None:
            archive = travelling.path
            if archive is None:
                return None
            with using_cache(self.environments):
                if not unpacked.is_unpacked(unpacked.folder_of(archive, self.environments)):
                    self.caller.note(f"unpacks {archive} to try it out: once")
                command, environ = unpacked.interpreter(archive, self.environments)
            environment = tuple(environ.items())
            return _Interpreter(str(archive), travelling.at, tuple(command), environment, True)
        if not self.engine.sees_home:
            return None
        value = setting(self.plan.components[component.name].values, "python.executable")
        python = component.settings.text("python.executable") or component.python
        return _Interpreter(python, value.at if value else None, (python,))


def _where(needed: Needed, caller: Caller) -> str:
    """Where on this machine a missing module is found, and how to ship it; "" if it is not found
    beside the program, in the working folder, between the two, or on PYTHONPATH."""
    cwd, name = caller.cwd, needed.module.partition(".")[0]
    program = cwd / needed.at.file
    above = [folder for folder in program.parents if folder.is_relative_to(cwd)]
    on_path = filter(None, caller.environ.get("PYTHONPATH", "").split(os.pathsep))
    places = {cwd / place: "on PYTHONPATH, which programs do not get" for place in on_path}
    places.update(dict.fromkeys(above, "above the program"))
    places.update({cwd: "in the working folder", program.parent: "beside the program"})
    for folder, words in reversed(places.items()):
        for path in (folder / f"{name}.py", folder / name):
            if path.is_file() or any(path.glob("*.py")):
                return f"it lies {words}: ship it with --files {shown(path, cwd)}"
    return ""


def _missing(needed: Needed, interpreter: _Interpreter, where: str) -> Problem:
    module = needed.module
    message = f"the program imports {module}, which {interpreter.name} does not have"
    if needed.variable:
        message = f"`{needed.variable}` needs {module}, which {interpreter.name} does not have"
    hint = f"add {_distribution(module)} to packages (site.global.python.packages), install it "
    hint += "there, or ship it with --files"
    if needed.within:
        message = f"the program imports {module}, which the shipped {needed.within} does not have"
        where = "correct the name, or ship that module too"
    elif "." in module and not needed.sure:
        hint = f"correct the name, or use a version of {_distribution(module)} that has it"
    severity = ERROR if needed.sure else WARNING
    return Problem(needed.at, "missing-module", message, severity, where or hint)


def _distribution(module: str) -> str:
    """The name that pip uses for the package of a module, as far as this Python knows it."""
    # As metadata.packages_distributions, which finds less before Python 3.11 and is not in 3.9.
    metadata = importlib.import_module("importlib.metadata")  # slow to load
    first = module.partition(".")[0]
    for one in metadata.distributions():
        declared = (one.read_text("top_level.txt") or "").split()
        if first in (declared or {file.parts[0].partition(".")[0] for file in one.files or ()}):
            return str(one.metadata["Name"])
    return module


def unpassed_variables(compiled: Compiled, caller: Caller) -> Iterator[Problem]:
    """Warnings for variables that the shipped programs read and `caller` has, and that do not reach
    them. Each variable once."""
    if compiled.plan is None:
        return
    reach = {name for env in compiled.private.env.values() for name in env}
    told = {*OF_EVERY_PROGRAM, *reach, *inherited(caller.environ)}
    for place, source in _sources(compiled.plan.package):
        for one in variables_of(source):
            if one.name in caller.environ and is_free_name(one.name) and one.name not in told:
                told.add(one.name)
                message = f"the program reads {one.name}, which is set here and does not reach it"
                hint = f"pass it on with -e {one.name}, with env={{...}}, or set env.{one.name}"
                at = Position(shown(Path(place), caller.cwd), one.line, one.column)
                yield Problem(at, "variable", message, WARNING, hint)


def _sources(package: AppPackage) -> Iterator[tuple[str, bytes]]:
    """The Python files that are shipped for the user's programs, and where they are."""
    for name, path in package.user_files.items():
        if name.endswith(".py") and not name.startswith(f"{CALL_FOLDER}/"):
            yield str(path), path.read_bytes()
    for name in package.source.files():
        inside = name.removeprefix(FILES)
        if inside != name and name.endswith(".py") and inside not in package.user_files:
            yield f"{package.source.label}/{name}", package.source.read(name)


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
