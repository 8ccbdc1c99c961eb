"""Deletes files of destroyed applications from the cache, which all applications of a home
share."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

from tfapp.engines import ENGINES
from tfapp.engines.definition import Definition
from tfapp.engines.refusals import DamagedError

CACHE = "cache"


def delete_shipped(home: Path, definitions: Iterable[Definition]) -> None:
    """Deletes the files of `definitions` from the cache, except for those that other applications
    use. The definitions have been deleted before."""
    delete_unused(home, {name for definition in definitions for name in file_names(definition)})


def delete_unused(home: Path, names: Iterable[str]) -> None:
    """Deletes the files `names` from the cache, except for those that an application under `home`
    (TFAPP_HOME) uses, on any engine."""
    from tfapp.compiler.store import delete_files

    wanted = set(names)

    def used() -> set[str]:
        try:
            return _used(home)
        except DamagedError:  # its files are not known
            return wanted

    delete_files(home / CACHE, wanted, used)


def _used(home: Path) -> set[str]:
    patterns = [importlib.import_module(module).DEFINITIONS for module in ENGINES.values()]
    found = (Definition.read(path) for pattern in patterns for path in home.glob(pattern))
    return {name for definition in found if definition for name in file_names(definition)}


def file_names(definition: Definition) -> set[str]:
    """The names of an application's files. The cache has a copy of each of them on every engine."""
    return {source.rpartition("/")[2] for source in definition.sources()}
