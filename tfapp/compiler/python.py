"""The Python of the containers: an interpreter that every machine has, or an environment that
travels with the application. Components may have archives of their own; where a function has no
component, it means the master, for which only `global` counts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp import placeholders
from tfapp.compiler.options import CompileOptions
from tfapp.contract.names import PYTHON
from tfapp.environment import archive, unpacked
from tfapp.frozen import frozen
from tfapp.package.model import SITE_GLOBAL, AppPackage, ConfigValue, setting
from tfapp.package.rules.environment import EXTENSIONS
from tfapp.problems import Problem

CODE = "python-environment"
_FILE = "file://"


@frozen
class Travelling:
    """An environment that is shipped. `path`: the archive on this machine, None where it is
    elsewhere. `url`: where containers get it from. `placed`: whether tfapp has to bring it
    there."""

    path: Path | None
    url: str
    placed: bool = False

    def __str__(self) -> str:
        return str(self.path or self.url)

    @property
    def name(self) -> str:
        """The archive's name at its place."""
        return self.url.rpartition("/")[2]

    @property
    def is_pex(self) -> bool:
        return archive.is_pex(self.url)


def environments(package: AppPackage, options: CompileOptions) -> dict[str, Travelling]:
    """The environment that is shipped to the containers of each component, and under "" that of
    the master; those without one are left out. OSError when an archive cannot be read."""
    found = {name: travelling(package, options, name) for name in _containers(package)}
    return {name: one for name, one in found.items() if one is not None}


def travelling(
    package: AppPackage, options: CompileOptions, component: str = ""
) -> Travelling | None:
    """The environment that is shipped to a component, None without one. OSError when it cannot be
    read."""
    path = options.python_archive
    value = setting(_values(package, component), "python.archive")
    if value is not None:
        known = placeholders.compile_values(options.user, options.name, component)
        text = placeholders.substitute(value.text, known)
        if "://" in text and not text.startswith(_FILE):
            return Travelling(None, text)
        path = Path(text.removeprefix(_FILE))
    if path is None:
        return None
    if not options.place:
        return Travelling(path, f"{_FILE}{path}")
    name = path.name
    if path.exists():  # else it is still to be made: a dry run gives it the name that it has here
        name = digest_of(path) + next(end for end in EXTENSIONS if name.endswith(end))
    return Travelling(path, f"{options.place}/{name}", placed=True)


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


def _containers(package: AppPackage) -> tuple[str, ...]:
    return ("", *(c.name for c in package.components if c.name in package.resources))


def _values(package: AppPackage, component: str) -> Mapping[str, ConfigValue]:
    return package.config.components[component] if component else package.config.global_


def key_of_travelling(package: AppPackage, component: str = "") -> str:
    """The key that configures an environment to ship, "" without one. An archive goes first: a
    component that has one does without the packages of all."""
    values = _values(package, component)
    keys = ("python.archive", "python.packages", "python.version")
    return next((SITE_GLOBAL + key for key in keys if setting(values, key)), "")


def travels(package: AppPackage, component: str = "") -> bool:
    """Whether an environment is shipped."""
    return key_of_travelling(package, component) != ""


def check_archive(package: AppPackage, options: CompileOptions) -> Iterator[Problem]:
    """Problems of archives that are missing or damaged, as far as reading their directories tells.
    Archives that were unpacked before, and those that tfapp made, are not read."""
    here = dataclasses.replace(options, place="")
    looked_at = set()
    for component in _containers(package):
        value = setting(_values(package, component), "python.archive")
        found = travelling(package, here, component)
        if value is not None and found is not None and (found, value.at) not in looked_at:
            looked_at.add((found, value.at))
            yield from _check(found, value, options)


def _check(found: Travelling, value: ConfigValue, options: CompileOptions) -> Iterator[Problem]:
    if found.path is None:
        return
    try:
        if not (found.path.is_absolute() and found.path.name.endswith(EXTENSIONS)):
            raise archive.UnfitError("is not the absolute path of an archive of Python")
        if not unpacked.folder_of(found.path, options.environments).exists():
            archive.look(found.path)
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}"
        yield Problem(value.at, CODE, message, hint="check the path, and who may read the file")
    except archive.UnfitError as error:
        yield Problem(value.at, CODE, f"{found} {error}")


def program_python(package: AppPackage, options: CompileOptions, component: str) -> str:
    """The interpreter of a component's programs in run mode local, unless it configures an
    executable."""
    if travels(package, component):
        return PYTHON
    return own_python(package, options, component)[0]


def own_python(
    package: AppPackage, options: CompileOptions, component: str = ""
) -> tuple[str, str]:
    """The interpreter of tfapp's own part of a component's containers, and the key that configures
    it: that which runs tfapp here, where they are; elsewhere the runner's own interpreter, or else
    that of the programs."""
    values = package.config.global_
    runner, executable = setting(values, "python.runner"), setting(values, "python.executable")
    key = "site.global.python.executable"
    if options.python_runs:
        return options.python, key
    if runner:
        return runner.text, "site.global.python.runner"
    if travels(package, component):
        return PYTHON, key_of_travelling(package, component)
    return executable.text if executable else options.python, key
