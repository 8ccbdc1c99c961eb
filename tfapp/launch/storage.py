"""The packages by which programs open URLs such as hdfs:// and s3://: whether they travel with an
application, and for which Python."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfapp.contract.job import SITE_GLOBAL, Settings
from tfapp.contract.names import OPENED_SCHEMES
from tfapp.disk import using_cache
from tfapp.engines.base import Engine
from tfapp.environment import build, libraries, unpacked
from tfapp.environment.archive import UnfitError
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.launch.caller import Caller
from tfapp.package.model import FILES, AppPackage, ConfigValue, setting
from tfapp.package.rules.values import FOLDER_KEYS, scheme_of, schemes_of
from tfapp.problems import Problem

CODE = "storage"
LARGEST = 1 << 20  # bytes of a file that are searched for a URL

# No \b before it: in a pickled program, what stands there is the length of the text.
_URL = re.compile(rf"({'|'.join(OPENED_SCHEMES)})://".encode())


def made_storage(
    package: AppPackage,
    engine: Engine,
    caller: Caller,
    environments: Path,
    dry_run: bool,
    variables: Iterable[str] = (),
) -> Path | None:
    """The archive of the packages. None where site.global.storage is false, and where neither a
    folder nor, as far as that is seen, a program, its arguments or its variables (`variables`:
    their values) name such a URL, and the key does not ask for it. With `dry_run` only its path is
    returned. InvalidPackageError when a folder is a URL, and they cannot be had or cannot open
    it."""
    folders = list(_folders(package))
    if not is_wanted(package, bool(folders) or _names_one(package, variables)):
        return None
    for folder in folders:
        if why := engine.closed(folder.text):
            hint = "Name a folder elsewhere. With site.global.storage: false tfapp opens none."
            raise _unopened(folder, why, hint)
    version, platform = (
        value.text if (value := setting(package.config.global_, f"python.{key}")) else ""
        for key in ("version", "platform")
    )
    version = version or build.version_here()
    platform = build.HERE if engine.sees_home else build.platform_of(platform)
    try:
        place = libraries.place(version, platform, environments)
        if not dry_run:
            with using_cache(environments):
                libraries.make(place, version, platform, caller.python, caller.environ, caller.note)
                if engine.sees_home:
                    _unpack(place, environments)
    except UnavailableError as error:
        if not folders:
            caller.note(f"warning: programs open no hdfs:// and s3://: {error.message}")
            return None
        raise _unopened(folders[0], error.message, error.hint) from error
    return place


def _unopened(folder: ConfigValue, why: str, hint: str) -> InvalidPackageError:
    message = f"{folder.text} cannot be opened: {why}"
    return InvalidPackageError((Problem(folder.at, CODE, message, hint=hint),))


def is_wanted(package: AppPackage, otherwise: bool) -> bool:
    """What site.global.storage says; `otherwise` if it says nothing."""
    values = {key: value.text for key, value in package.config.global_.items()}
    return Settings(values).flag("storage") if f"{SITE_GLOBAL}storage" in values else otherwise


def _folders(package: AppPackage) -> Iterator[ConfigValue]:
    """The folders that these packages open."""
    sections = (package.config.global_, *package.config.components.values())
    values = (setting(section, key) for section in sections for key in FOLDER_KEYS)
    schemes = schemes_of(package)
    return (value for value in values if value and scheme_of(value.text) in schemes)


def _names_one(package: AppPackage, variables: Iterable[str]) -> bool:
    """Whether a shipped file, a value of appConfig or a variable has such a URL in it, or may have
    one of a scheme that appConfig adds."""
    if setting(package.config.global_, "storage.schemes"):
        return True
    texts = [value.text for own in package.config.components.values() for value in own.values()]
    if any(_URL.search(text.encode(errors="surrogateescape")) for text in (*texts, *variables)):
        return True
    if any(_URL.search(_start_of(path)) for path in package.user_files.values()):
        return True
    names = (name for name in package.source.files() if name not in package.user_files)
    return any(_URL.search(package.source.read(name)) for name in names if name.startswith(FILES))


def _start_of(path: Path) -> bytes:
    """Its first LARGEST bytes. None of a file that cannot be read: the compiler says so."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(LARGEST)
    return b""


def _unpack(archive: Path, environments: Path) -> None:
    try:
        unpacked.unpack(archive, environments)
    except UnfitError as error:
        hint = "Delete it, and it is made again."
        raise UnavailableError(f"{archive} {error}", hint) from error
