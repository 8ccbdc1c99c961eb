"""The files that an application was made from: whether they have changed since. `start` runs the
program as it was, which surprises those who have edited it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.contract.encoding import Coded
from tfapp.disk import make_private, write_json
from tfapp.engines.base import Application, Engine
from tfapp.engines.refusals import read_if_whole
from tfapp.errors import InvalidPackageError, TfappError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller, shown
from tfapp.package.source import open_source
from tfapp.problems import first_of
from tfapp.shipped import app_packages_dir

if TYPE_CHECKING:
    from tfapp.launch.submission import Request

PLACE = "sources"  # below TFAPP_HOME: a folder for each engine, a file for each application
HASHED = 1 << 20  # bytes of the largest file that is compared by its content
_NAMED = 3  # files that one message names

Stamps = Mapping[str, "list[Any]"]  # path -> size, time of the last change in ns, digest or null


@frozen
class MadeFrom(Coded):
    """The record of what an application was made from. `id`: that of its first run. `package`: its
    path, "" for none that lasts."""

    id: str = ""
    package: str = ""
    files: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # see Stamps


def stamps(request: Request, cwd: Path) -> Stamps:
    """The present state of the user's own files among those that `request` is made from."""
    found = {}
    for path in {cwd / path for path in _files(request)}:
        with contextlib.suppress(OSError):
            found[str(path)] = _stamp(path)
    return dict(sorted(found.items()))


def remember(caller: Caller, application: Application, appdef: Path, seen: Stamps) -> None:
    """Records the package and the files that an application was made from. Temporary files, which
    are gone by now, are left out. Errors of the disk are ignored."""
    package = caller.cwd / appdef
    place = _place(caller, application.engine, application.name)
    kept = {path: stamp for path, stamp in seen.items() if Path(path).exists()}
    with contextlib.suppress(OSError, TfappError):
        make_private(place.parent)
        made_from = str(package) if package.exists() else ""
        write_json(place, MadeFrom(application.id, made_from, kept))


def warn_if_changed(caller: Caller, engine: Engine, name: str) -> None:
    """Notes which files have changed since the application `name` was made, if any have."""
    with contextlib.suppress(OSError, ValueError, TfappError):
        known = _read(caller, engine.name, name)
        if known.id != engine.find(name, 1).id:
            return  # it was made elsewhere, or by a Python call
        files = known.files.items()
        changed = [shown(Path(path), caller.cwd) for path, old in files if _has_changed(path, old)]
        if changed:
            verb = "have" if len(changed) > 1 else "has"
            caller.note(
                f"warning: {first_of(changed, _NAMED)} {verb} changed since {name} was made; it "
                "runs as it was\n  `tfapp create` and `tfapp run` with --replace take the files of "
                "now."
            )


def package_of(caller: Caller, engine: Engine, application: Application) -> str:
    """The package that an application was made from by a command on this machine, a path; else
    ""."""
    name = application.name
    with contextlib.suppress(OSError, TfappError):
        known = _read(caller, engine.name, name)
        first = application if application.run == 1 else engine.find(name, 1)
        if known.id == first.id:  # else it was made elsewhere, or by a Python call
            return known.package
    return ""


def missed_file(caller: Caller, engine: str, application: Application) -> str:
    """A sentence about a file or module that the program has not found, but that is beside its
    sources on this machine, with the way to ship it; "" if there is none."""
    verdict = application.status.verdict
    missed = verdict.cause.exit.missed if verdict is not None and verdict.cause is not None else ""
    named = os.path.normpath(missed)
    if not missed or named.startswith(("/", "..")):
        return ""
    with contextlib.suppress(OSError):
        known = _read(caller, engine, application.name).files
        for source in map(Path, known):
            for name in (named, f"{named}.py"):
                path = source.parent / name
                first, *below = Path(name).parts
                # Below a folder it may have been shipped, but without the folder.
                if path.exists() and (below or str(path) not in known):
                    way = f"--files {shown(source.parent / first, caller.cwd)}"
                    return f"{name} lies beside the program and was not shipped: {way}"
    return ""


def forget(caller: Caller, engine: Engine, name: str) -> None:
    """Deletes the record of an application that was destroyed."""
    with contextlib.suppress(OSError):
        _place(caller, engine.name, name).unlink()


def _read(caller: Caller, engine: str, name: str) -> MadeFrom:
    return read_if_whole(_place(caller, engine, name), MadeFrom.from_dict) or MadeFrom()


def _place(caller: Caller, engine: str, name: str) -> Path:
    return caller.home / PLACE / engine / f"{name}.json"


def _files(request: Request) -> Iterator[Path]:
    yield from request.files.values()
    yield from (path for path in (request.template, request.resources) if path is not None)
    if request.appdef.is_file():
        yield request.appdef
    elif app_packages_dir() not in request.appdef.resolve().parents:
        with contextlib.suppress(InvalidPackageError):  # told by whoever compiles it
            for path in open_source(request.appdef, str(request.appdef)).files():
                yield request.appdef / path


def _stamp(path: Path) -> list[Any]:
    about = path.stat()
    digest = None
    if about.st_size <= HASHED:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return [about.st_size, about.st_mtime_ns, digest]


def _has_changed(path: str, before: list[Any]) -> bool:
    """Whether a file has changed or is gone. A new time alone is no change, because `git checkout`
    sets one."""
    try:
        size, changed, digest = before
        about = Path(path).stat()
        if (about.st_size, about.st_mtime_ns) == (size, changed):
            return False
        return digest is None or _stamp(Path(path))[2] != digest
    except OSError:
        return True
