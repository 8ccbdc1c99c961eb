"""Deletes files of destroyed applications from the cache under TFAPP_HOME, which all applications
share, and limits its size for users who do not destroy applications. It holds
archives of environments and unpacked environments, of some gigabytes each, which become useless
when a package changes its requirements.

Files that an application needs for another run are kept, and so is everything that a running
application uses. Unpacked environments may be deleted: they are unpacked again when needed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfapp.compiler.store import CACHE, delete_files, nobody_stores
from tfapp.disk import delete_tree, size_of
from tfapp.engines import ENGINES
from tfapp.engines.definition import Definition
from tfapp.engines.refusals import DamagedError
from tfapp.environment.unpacked import folder_of, last_use
from tfapp.frozen import frozen

EVERY = 24 * 3600.0  # seconds between two looks
KEPT = 30 * 24 * 3600.0  # seconds since its last use for which something stays
RECENT = 24 * 3600.0  # the same, when there is no room
ROOM = 20 << 30  # bytes of what may be deleted; the longest unused goes first

ENVIRONMENTS = "environments"
_MARK = ".tidied"
_GONE = ".new.gone-"  # begins the names of folders that the next one who unpacks deletes
_SHIPPED = re.compile(r"[0-9a-f]{64}\.(zip|json|private\.json)\Z")
_ENVIRONMENT = re.compile(r"(tfapp-)?[0-9a-f]{24}\Z|[0-9a-f]+\.tar\.gz\Z")


@frozen
class _Entry:
    """A file or folder of the cache. `used`: the time of its last use, in seconds since 1970."""

    path: Path
    used: float


def tidy(home: Path, now: float, room: int = ROOM) -> None:
    """Deletes entries of the cache below `home` that have not been used for KEPT seconds, and
    further ones if the cache exceeds `room` bytes. Runs once in EVERY seconds. `now`: seconds since
    1970. Stops at the first disk error."""
    cache = home / CACHE
    with contextlib.suppress(OSError), nobody_stores(cache, 0.0) as alone:
        if not alone or now - _time_of(cache / _MARK) < EVERY:
            return
        with contextlib.suppress(DamagedError):  # then it is not known what is needed
            needed = _needed(home)
            found = [entry for entry in _entries(cache) if entry.path.name not in needed]
            for entry in _superfluous(found, now, room):
                _delete(entry.path, cache / ENVIRONMENTS)
        (cache / _MARK).touch(0o600)
        os.utime(cache / _MARK, (now, now))


def _time_of(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _entries(cache: Path) -> Iterator[_Entry]:
    for folder, pattern in ((cache, _SHIPPED), (cache / ENVIRONMENTS, _ENVIRONMENT)):
        with contextlib.suppress(FileNotFoundError):
            for found in os.scandir(folder):
                if pattern.match(found.name):
                    used = last_use(found.stat(follow_symlinks=False))
                    yield _Entry(Path(found.path), used)


def _superfluous(entries: list[_Entry], now: float, room: int) -> Iterator[_Entry]:
    left = []
    for entry in entries:
        if now - entry.used > KEPT:
            yield entry
        else:
            left.append((entry, size_of(entry.path)))
    total = sum(size for _, size in left)
    for entry, size in sorted(left, key=lambda pair: pair[0].used):
        if total <= room or now - entry.used <= RECENT:
            return
        yield entry
        total -= size


def _delete(path: Path, environments: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    gone = environments / f"{_GONE}{path.name}"  # nobody sees it half deleted
    delete_tree(gone)
    path.rename(gone)
    delete_tree(gone)


def _needed(home: Path) -> set[str]:
    """The names of all entries that applications need for another run, on any engine, or that
    running applications use. DamagedError if the definition of one cannot be read."""
    needed = set()
    for path, definition in _definitions(home):
        needed |= file_names(definition)
        if any(path.parent.glob("runs/*/containers")):
            needed.update(_opened(definition))
    return needed


def _definitions(home: Path) -> Iterator[tuple[Path, Definition]]:
    for module in ENGINES.values():
        for path in home.glob(importlib.import_module(module).DEFINITIONS):
            definition = Definition.read(path)
            if definition is not None:
                yield path, definition


def _opened(definition: Definition) -> Iterator[str]:
    """The folders with the unpacked archives of an application of the local engine."""
    for archive in definition.local_files():
        yield f"tfapp-{archive.name[:24]}"
        with contextlib.suppress(OSError):
            yield folder_of(archive, archive.parent).name


def delete_shipped(home: Path, definitions: Iterable[Definition]) -> None:
    """Deletes the files of `definitions` from the cache, except for those that other applications
    use. The definitions have been deleted before."""
    delete_unused(home, {name for definition in definitions for name in file_names(definition)})


def delete_unused(home: Path, names: Iterable[str]) -> None:
    """Deletes the files `names` from the cache, except for those that an application under `home`
    (TFAPP_HOME) uses, on any engine."""
    wanted = set(names)

    def used() -> set[str]:
        try:
            return {name for _, known in _definitions(home) for name in file_names(known)}
        except DamagedError:  # its files are not known
            return wanted

    delete_files(home / CACHE, wanted, used)


def file_names(definition: Definition) -> set[str]:
    """The names of an application's files. The cache has a copy of each of them on every engine."""
    return {source.rpartition("/")[2] for source in definition.sources()}
