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
from tfapp.contract.names import PYTHON
from tfapp.environment import archive, unpacked
from tfapp.frozen import frozen
from tfapp.package.model import SITE_GLOBAL, AppPackage, setting
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


def travelling(package: AppPackage, options: CompileOptions) -> Travelling | None:
    """The environment that `package` ships, None without one. OSError when it cannot be read."""
    path = options.python_archive
    if path is None:
        value = setting(package.config.global_, "python.archive")
        if value is None:
            return None
        known = placeholders.compile_values(options.user, options.name, "")
        text = placeholders.substitute(value.text, known)
        if "://" in text and not text.startswith(_FILE):
            return Travelling(None, text)
        path = Path(text.removeprefix(_FILE))
    if not options.place:
        return Travelling(path, f"{_FILE}{path}")
    digest = digest_of(path)
    extension = next(end for end in EXTENSIONS if path.name.endswith(end))
    return Travelling(path, f"{options.place}/{digest}{extension}", placed=True)


def digest_of(path: Path) -> str:
    """The SHA-256 of an archive. It is read again only after it has changed. OSError."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _digest(path: Path, size: int, modified: int) -> str:
    """The SHA-256 of a file. `size` and `modified` are in the cache's key, so that a changed file
    is read again."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def key_of_travelling(package: AppPackage) -> str:
    """The key that configures an environment to ship, "" without one."""
    values = package.config.global_
    keys = ("python.archive", "python.packages", "python.version")
    return next((SITE_GLOBAL + key for key in keys if setting(values, key)), "")


def travels(package: AppPackage) -> bool:
    """Whether an environment is shipped."""
    return key_of_travelling(package) != ""


def check_archive(package: AppPackage, options: CompileOptions) -> Iterator[Problem]:
    """Problems of an archive that is missing or damaged, as far as reading its directory tells.
    Archives that were unpacked before, and those that tfapp made, are not read."""
    value = setting(package.config.global_, "python.archive")
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
    """The interpreter of programs in run mode local whose component configures none."""
    return PYTHON if travels(package) else options.python


def node_python(package: AppPackage, options: CompileOptions) -> tuple[str, str]:
    """The interpreter of tfapp's own part of a container on another machine, and the key that
    configures it: the runner's own interpreter, or else that of the programs."""
    values = package.config.global_
    runner, executable = setting(values, "python.runner"), setting(values, "python.executable")
    if runner:
        return runner.text, "site.global.python.runner"
    if travels(package):
        return PYTHON, key_of_travelling(package)
    return executable.text if executable else options.python, options.python_key
