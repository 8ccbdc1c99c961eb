"""The Python of the containers: an interpreter that every machine has, or an environment that
travels with the application."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tfapp import placeholders
from tfapp.compiler.options import CompileOptions
from tfapp.contract.container import PYTHON
from tfapp.environment import archive, unpacked
from tfapp.package.model import AppPackage
from tfapp.package.rules.python_environment import ARCHIVE, EXECUTABLE, EXTENSIONS, PACKAGES
from tfapp.problems import Problem

RUNNER = "site.global.python.runner"
CODE = "python-environment"
_FILE = "file://"


@dataclasses.dataclass(frozen=True)
class Travelling:
    """An environment that is shipped. `path`: the archive on this machine, None where it is
    elsewhere; `url`: where containers get it from; `placed`: it has to be brought there."""

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


def travelling(package: AppPackage, options: CompileOptions) -> Travelling | None:
    """The environment that `package` ships, None without one. OSError when it cannot be read."""
    path = options.python_archive
    if path is None:
        value = package.config.global_.get(ARCHIVE)
        if value is None:
            return None
        known = placeholders.compile_values(options.user, options.name, "")
        text = placeholders.substitute(value.text, known)
        if "://" in text and not text.startswith(_FILE):
            return Travelling(None, text)
        path = Path(text.removeprefix(_FILE))
    if not options.place:
        return Travelling(path, f"{_FILE}{path}")
    status = path.stat()
    digest = _digest(path, status.st_size, status.st_mtime_ns)
    extension = next(end for end in EXTENSIONS if path.name.endswith(end))
    return Travelling(path, f"{options.place}/{digest}{extension}", placed=True)


@functools.lru_cache(maxsize=4)
def _digest(path: Path, size: int, modified: int) -> str:
    """Of the file's content, which has changed when its size or time has."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def travels(package: AppPackage) -> bool:
    """Whether there is an environment that is shipped."""
    return bool({ARCHIVE, PACKAGES} & package.config.global_.keys())


def check_archive(package: AppPackage, options: CompileOptions) -> Iterator[Problem]:
    """An archive that is not there or cannot be used, as far as a look into it tells. One that
    was unpacked before is not looked into again; one that tfapp made needs no look."""
    value = package.config.global_.get(ARCHIVE)
    if value is None:
        return
    try:
        found = travelling(package, dataclasses.replace(options, place=""))
        if found is None or found.path is None:
            return
        if not (found.path.is_absolute() and found.path.name.endswith(EXTENSIONS)):
            raise archive.UnfitError("is not the absolute path of an archive of Python")
        if not unpacked.folder_of(found.path, options.environments).exists():
            archive.look(found.path)
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}"
        yield Problem(value.at, CODE, message, hint="check the path, and who may read the file")
    except archive.UnfitError as error:
        yield Problem(value.at, CODE, f"{found} {error}")


def program_python(package: AppPackage, options: CompileOptions) -> str:
    """What runs programs of run mode local, where their component names nothing else."""
    return PYTHON if travels(package) else options.python


def node_python(package: AppPackage, options: CompileOptions) -> tuple[str, str]:
    """What runs tfapp's own part of a container on a machine that is not this one, and the key
    that says so: the runner's own interpreter, or that of the programs."""
    values = package.config.global_
    if RUNNER in values:
        return values[RUNNER].text, RUNNER
    if travels(package):
        return PYTHON, ARCHIVE if ARCHIVE in values else PACKAGES
    if EXECUTABLE in values:
        return values[EXECUTABLE].text, EXECUTABLE
    return options.python, EXECUTABLE
