"""The Python of the containers: an interpreter that every machine has, or an environment that
travels with the application. Components may have archives of their own; where a function has no
component, it means the master, for which only `global` counts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tfapp import placeholders
from tfapp.compiler.options import CompileOptions
from tfapp.compiler.plan import Python, Travelling
from tfapp.contract.job import SITE_GLOBAL
from tfapp.contract.names import PYTHON
from tfapp.environment import archive, unpacked
from tfapp.package.model import AppPackage, ConfigValue, setting
from tfapp.package.rules.environment import EXTENSIONS
from tfapp.problems import Position, Problem

CODE = "python-environment"
_FILE = "file://"
# What configures an environment to ship. An archive goes first: a component that has one does
# without the packages of all.
_TRAVEL = ("python.archive", "python.packages", "python.version")


def find_python(package: AppPackage, options: CompileOptions, component: str = "") -> Python:
    """The Python of a component. tfapp's own part runs in the interpreter that runs tfapp here,
    where the containers are; elsewhere in the runner's own interpreter, or else in that of the
    programs. Nothing is read: an environment has the URL that it has on this machine."""
    shared = package.config.global_
    values = package.config.components[component] if component else shared
    travels = next((SITE_GLOBAL + key for key in _TRAVEL if setting(values, key)), "")
    runner, executable = setting(shared, "python.runner"), setting(shared, "python.executable")
    own, key = options.python, "site.global.python.executable"
    if not options.python_runs:
        if runner:
            own, key = runner.text, "site.global.python.runner"
        elif travels:
            own, key = PYTHON, travels
        elif executable:
            own = executable.text
    travelling = _travelling(values, travels, options, component)
    programs = PYTHON if travels else own
    return Python(own, key, programs, travels, travelling, options.python_runs)


def _travelling(
    values: Mapping[str, ConfigValue], key: str, options: CompileOptions, component: str
) -> Travelling | None:
    path, value = options.python_archive, setting(values, "python.archive")
    if value is not None:
        known = placeholders.compile_values(options.user, options.name, component)
        text = placeholders.substitute(value.text, known)
        if "://" in text and not text.startswith(_FILE):
            return Travelling(None, text, at=value.at)
        path = Path(text.removeprefix(_FILE))
    if path is None:
        return None
    at = values[key].at if key else Position("")
    return Travelling(path, f"{_FILE}{path}", at=at)


def placed(python: Python, place: str) -> Python:
    """`python` with the URL of its environment at `place`, where it is named by its content. ""
    leaves it on this machine. OSError when it cannot be read."""
    found = python.travelling
    if found is None:
        return python
    return dataclasses.replace(python, travelling=travelling_to(found, place))


def travelling_to(found: Travelling, place: str) -> Travelling:
    """`found` with its URL at `place`: see `placed`."""
    if not place or found.path is None:
        return found
    name = found.path.name
    if found.path.exists():  # else it is still to be made: a dry run gives it the name it has here
        name = digest_of(found.path) + next(end for end in EXTENSIONS if name.endswith(end))
    return dataclasses.replace(found, url=f"{place}/{name}", placed=True)


def digest_of(path: Path) -> str:
    """The SHA-256 of an archive. It is read again only after it has changed. OSError."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@functools.cache  # a component may have one of its own
def _digest(path: Path, size: int, modified: int) -> str:
    """The SHA-256 of a file. `size` and `modified` are in the cache's key, so that a changed file
    is read again."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def find_storage(options: CompileOptions) -> Travelling | None:
    """The packages by which programs open URLs, at the place of the archives."""
    if options.storage is None:
        return None
    return travelling_to(Travelling(options.storage, f"{_FILE}{options.storage}"), options.place)


def check_archives(pythons: Iterable[Python], options: CompileOptions) -> Iterator[Problem]:
    """Problems of archives that are missing or damaged, as far as reading their directories tells.
    Archives that were unpacked before, and those that tfapp made, are not read."""
    for found in {one.travelling for one in pythons if one.travelling is not None}:
        if found.path is not None and found.path != options.python_archive:
            yield from _check(found, found.path, options)


def _check(found: Travelling, path: Path, options: CompileOptions) -> Iterator[Problem]:
    try:
        if not (path.is_absolute() and path.name.endswith(EXTENSIONS)):
            raise archive.UnfitError("is not the absolute path of an archive of Python")
        if not unpacked.is_unpacked(unpacked.folder_of(path, options.environments)):
            archive.look(path)
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}"
        yield Problem(found.at, CODE, message, hint="check the path, and who may read the file")
    except archive.UnfitError as error:
        yield Problem(found.at, CODE, f"{found} {error}")
