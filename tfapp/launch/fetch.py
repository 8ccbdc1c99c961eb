"""Copies files of an application's checkpoint folder to this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tfapp.contract.names import outputs_of
from tfapp.engines.base import Engine, StoredFile
from tfapp.errors import ExistsError, NotFoundError, TfappError, UnavailableError, UsageError
from tfapp.launch.caller import Caller
from tfapp.problems import first_of

SCRATCH = ".tfapp-fetch-"  # begins the name of the folder in which files arrive
_NAMED = 5  # files that one message names


def fetch(
    engine: Engine,
    name: str,
    path: str,
    folder: Path,
    caller: Caller,
    replace: bool = False,
    outputs: bool = False,
) -> tuple[Path, ...]:
    """Copies the file or folder `path` of the application's checkpoint folder into `folder`, under
    the last part of `path`; with "" the whole checkpoint folder. `outputs`: of the folder with the
    outputs of its newest run instead. `folder` is made if it does not exist. Returns the new files,
    sorted by their path in the checkpoint folder. A file that was deleted meanwhile is noted. Each
    file appears as a whole or not at all.

    ExistsError where a file would be replaced, unless with `replace`, and where a folder would
    replace a file or a file a folder; then nothing is copied. NotFoundError where there is no such
    file, UsageError for a path that leads out of the folder, UnavailableError when reading or
    writing fails.
    """
    beside = outputs_of(engine.find(name).id) if outputs else ""
    with engine.checkpoints(name, beside) as checkpoints:
        path = _below(path, checkpoints.place)
        files = checkpoints.files(path)
        if not files:
            raise NotFoundError(f"there are no files in {_joined(checkpoints.place, path)}")
        targets = _targets(files, path, folder)
        _check(targets.values(), folder, replace)
        caller.note(f"fetches {described(files)} of {_joined(checkpoints.place, path)}")
        with _written(folder), _made(folder):
            _check_room(files, folder)
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
            try:
                checkpoints.copy(path, scratch)
                arrived = tuple(_moved(scratch, targets))
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    _tell_gone([target for target in targets.values() if target not in arrived], caller)
    return arrived


def described(files: Sequence[StoredFile]) -> str:
    """ "3 files (1.2 MiB)"."""
    return f"{len(files)} file{'s' * (len(files) != 1)} ({_amount(sum(f.size for f in files))})"


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _below(path: str, place: str) -> str:
    """`path` relative to the checkpoint folder `place`, "" for that itself."""
    place = place.rstrip("/")
    if path == place or path.startswith(f"{place}/"):
        path = path[len(place) :].lstrip("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise UsageError(
            f"{path} is not below the checkpoint folder {place}",
            "Give a path that is relative to it.",
        )
    return "/".join(parts)


def _joined(place: str, path: str) -> str:
    return f"{place.rstrip('/')}/{path}" if path else place


def _targets(files: Sequence[StoredFile], path: str, folder: Path) -> dict[str, Path]:
    """The paths in the checkpoint folder, and the path on this machine for each."""
    above = PurePosixPath(path).parent
    found = {}
    for file in files:
        # What another machine says is not to lead out of `folder`.
        if not is_inside(file.path) or not _is_below(file.path, path):
            raise UnavailableError(f"the checkpoint folder has a file of the name {file.path!r}")
        found[file.path] = folder / PurePosixPath(file.path).relative_to(above)
    return found


def is_inside(path: str) -> bool:
    """Whether a relative path does not lead out of the folder that it is relative to."""
    return not {"", ".", ".."} & {*path.split("/")}


def _is_below(file: str, path: str) -> bool:
    return not path or file == path or file.startswith(f"{path}/")


def _check(targets: Iterable[Path], folder: Path, replace: bool) -> None:
    """ExistsError for files that would be replaced."""
    blocked: set[Path] = set()
    taken: list[Path] = []
    for target in targets:
        above = [parent for parent in target.parents if folder in (parent, *parent.parents)]
        blocked.update(p for p in above if os.path.lexists(p) and not p.is_dir())
        if os.path.lexists(target):
            (blocked.add if target.is_dir() else taken.append)(target)
    if blocked:
        first = min(blocked)
        is_what, wanted = ("a folder", "a file") if first.is_dir() else ("a file", "a folder")
        raise ExistsError(
            f"{first} is {is_what}, where {wanted} is to come", "Remove it, or name another folder."
        )
    if taken and not replace:
        verb = "exist" if len(taken) > 1 else "exists"
        raise ExistsError(
            f"{first_of(taken, _NAMED)} {verb} already; nothing is fetched",
            "Name another folder, or replace what is there with --force.",
        )


@contextlib.contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except TfappError:
        raise
    except OSError as error:
        raise UnavailableError(
            f"{folder} cannot be written: {error.strerror}", "Make room or access, or name another."
        ) from error


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Makes `folder`, and removes it at the end if it is new and nothing was copied into it."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for one in new:
                one.rmdir()


def _check_room(files: Sequence[StoredFile], folder: Path) -> None:
    needed, free = sum(file.size for file in files), shutil.disk_usage(folder).free
    if needed > free:
        raise UnavailableError(
            f"{described(files)} do not fit on the disk of {folder}, with {_amount(free)} free",
            "Make room, name another folder, or fetch a part by PATH.",
        )


def _moved(scratch: Path, targets: Mapping[str, Path]) -> Iterator[Path]:
    """Moves the files that have arrived in `scratch` to their places, and returns those."""
    for path, target in targets.items():
        source = scratch / path
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(source.lstat().st_mode):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
            yield target


def _tell_gone(gone: Sequence[Path], caller: Caller) -> None:
    if gone:
        names = first_of([path.name for path in gone], _NAMED)
        caller.note(f"warning: gone before it was fetched: {names}")
