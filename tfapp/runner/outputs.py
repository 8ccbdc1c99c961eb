"""Keeps what a program has left in its working folder, which ends with its container."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tfapp import threads
from tfapp.contract.job import Settings
from tfapp.contract.status import MOST_OUTPUTS, Outputs
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.runner.container import OWN_FILES
from tfapp.storage import folders
from tfapp.storage.base import Store

LIMIT = 60.0  # seconds; a folder of a server that does not answer must not hold up a report
_MOST_SEEN = 100_000  # files of a working folder; what lies beyond them is not looked at
# What follows the name of a cache of tf.data in those of its files.
_UNFINISHED_CACHE = re.compile(r"\.data-\d{5}-of-\d{5}\.tempstate\d+$")
_CACHE = re.compile(r"\.(index|lockfile|data-\d{5}-of-\d{5}(\.tempstate\d+)?)$")
_BEGIN = 64  # bytes of an index that are looked at
_MOST_LETTERS = 200  # of a name that is told


@frozen
class Limits:
    """What is kept of one program: at most so many bytes, and so many files."""

    size: int
    files: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        megabytes = int(settings.text("outputs.max.mb") or 0)
        return cls(megabytes << 20, int(settings.text("outputs.max.files") or 0))


def keep(
    work: Path,
    place: str,
    limits: Limits,
    shown: Callable[[str], str],
    environ: Mapping[str, str] = os.environ,
) -> Outputs:
    """Copies the files below the working folder `work`, in the order of their paths, into the
    folder `place`, a path or a URL, as far as `limits` allow. Links are not followed: what was
    shipped is linked. `place`: "" where nothing can be kept. `shown`: of a path, as it may be told.
    `environ`: has the credentials for a URL."""
    if not limits.size or not limits.files:
        return Outputs()
    found: list[Outputs] = []
    keeping = threads.start(
        "tfapp-outputs", lambda: found.append(_keep(work, place, limits, shown, environ))
    )
    keeping.join(LIMIT)
    return found[0] if found else Outputs(left_count=1, why=f"{place} does not answer")


def _keep(
    work: Path,
    place: str,
    limits: Limits,
    shown: Callable[[str], str],
    environ: Mapping[str, str],
) -> Outputs:
    kept: list[tuple[str, int]] = []
    left: list[tuple[str, int]] = []
    store, unopened, room = None, "", limits.size
    try:
        store = folders.store_of(place, environ)
    except UnavailableError as error:
        unopened = error.message
    why = unopened
    for path, size in sorted(_files(work)):
        refused = unopened or _refusal(place, limits, size <= room and len(kept) < limits.files)
        if not refused:
            try:
                _copy(work / path, f"{place}/{path}", store)
            except (OSError, UnavailableError) as error:
                refused = f"{place} cannot be written: {getattr(error, 'strerror', error)}"
        if refused:
            why = refused
            left.append((path, size))
        else:
            room -= size
            kept.append((path, size))

    def told(files: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        return tuple((shown(path)[:_MOST_LETTERS], size) for path, size in files[:MOST_OUTPUTS])

    total = sum(size for _, size in kept)
    return Outputs(place if kept else "", told(kept), len(kept), total, told(left), len(left), why)


def _refusal(place: str, limits: Limits, fits: bool) -> str:
    if not place:
        return (
            "its working folder ends with the container, and so does its checkpoint folder "
            "(site.global.user.checkpoint.prefix names one that stays)"
        )
    if not fits:
        return (
            f"more than {limits.size >> 20} MiB or {limits.files:,} files "
            "(site.global.outputs.max.mb, site.global.outputs.max.files)"
        )
    return ""


def _files(work: Path) -> Iterator[tuple[str, int]]:
    """The regular files below `work`, but for tfapp's own: paths relative to it, and sizes."""
    seen = 0
    for folder, below, names in os.walk(work):
        caches = {_CACHE.sub("", name) for name in names if _is_of_cache(Path(folder, name))}
        # Caches: in an image the working folder is the program's HOME.
        below[:] = [name for name in below if name != "__pycache__" and name[0] != "."]
        for name in names:
            seen += 1
            if seen > _MOST_SEEN:
                return
            if _CACHE.search(name) and _CACHE.sub("", name) in caches:
                continue
            path = os.path.relpath(os.path.join(folder, name), work)
            try:
                found = os.lstat(work / path)
            except OSError:  # it has just gone
                continue
            if stat.S_ISREG(found.st_mode) and path not in OWN_FILES:
                yield path, found.st_size


def _is_of_cache(path: Path) -> bool:
    """Whether a file tells that it is of a cache of tf.data (`cache("NAME")`): one that is not
    whole yet, or an index whose first tensor is element 0, by its number with spaces before it, as
    no variable of a checkpoint is called."""
    if _UNFINISHED_CACHE.search(path.name):
        return True
    if path.suffix != ".index":
        return False
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            with path.open("rb") as file:
                return b"\t\x0b      0_0" in file.read(_BEGIN)
    return False


def _copy(source: Path, place: str, store: Store | None) -> None:
    """Copies a file to a path or, by `store`, a URL. It appears as a whole, in place of an older
    one."""
    if store is not None:
        with folders.opening(place):
            folders.send(store, source, place)
        return
    target = Path(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / ".tfapp-partial"
    try:
        shutil.copy2(source, partial, follow_symlinks=False)
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
