"""What a destroyed application leaves in the cache, which all applications of a home share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tfapp.engines.definition import Definition

CACHE = "cache"
# Where every engine keeps the definitions of its applications, below TFAPP_HOME.
_DEFINITIONS = ("apps/*/definition.json", "yarn/applications/*/definition.json")


def delete_shipped(home: Path, definitions: Iterable[Definition]) -> None:
    """Deletes from the cache what of `definitions`, which are forgotten already, no other
    application is made of."""
    delete_unused(home, {name for definition in definitions for name in file_names(definition)})


def delete_unused(home: Path, names: Iterable[str]) -> None:
    """Deletes from the cache the files called `names` but for those that an application under
    `home` (TFAPP_HOME), on any engine, is made of."""
    from tfapp.compiler.store import delete_files

    delete_files(home / CACHE, names, lambda: _used(home))


def _used(home: Path) -> set[str]:
    found = (Definition.read(path) for pattern in _DEFINITIONS for path in home.glob(pattern))
    return {name for definition in found if definition for name in file_names(definition)}


def file_names(definition: Definition) -> set[str]:
    """Of its files, wherever containers get them from: a copy lies in the cache."""
    return {source.rpartition("/")[2] for source in definition.sources()}
