"""The files that an application was made from: whether they have changed since. `start` runs the
program as it was, which surprises those who have edited it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.disk import make_private, read_json, write_json
from tfapp.engines.base import Application, Engine
from tfapp.errors import InvalidPackageError, TfappError
from tfapp.launch.caller import Caller
from tfapp.package.source import open_source
from tfapp.shipped import app_packages_dir

if TYPE_CHECKING:
    from tfapp.launch.submission import Request

PLACE = "sources"  # below TFAPP_HOME: a folder for each engine, a file for each application
HASHED = 1 << 20  # bytes of the largest file that is compared by its content
_NAMED = 3  # files that one message names
# How Python, TensorFlow and NumPy say that a file is not there.
_NOT_FOUND = re.compile(
    r"No such file or directory: '([^'\n]+)'|(\S+); No such file or directory|"
    r"FileNotFoundError: (\S+) not found"
)

Stamps = Mapping[str, "list[Any]"]  # path -> size, time of the last change in ns, digest or null


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
        made_from = {"package": str(package) if package.exists() else "", "files": kept}
        write_json(place, {"id": application.id, **made_from})


def warn_if_changed(caller: Caller, engine: Engine, name: str) -> None:
    """Notes which files have changed since the application `name` was made, if any have."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, TfappError):
        known = read_json(_place(caller, engine.name, name))
        if known["id"] != engine.find(name, 1).id:
            return  # it was made elsewhere, or by a Python call
        changed = [path for path, stamp in known["files"].items() if _has_changed(path, stamp)]
        if changed:
            verb = "have" if len(changed) > 1 else "has"
            caller.note(
                f"warning: {_named(changed, caller.cwd)} {verb} changed since {name} was made; it "
                "runs as it was\n  `tfapp create` and `tfapp run` with --replace take the files of "
                "now."
            )


def package_of(caller: Caller, engine: Engine, application: Application) -> str:
    """The package that an application was made from by a command on this machine, a path; else
    ""."""
    name = application.name
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, TfappError):
        known = read_json(_place(caller, engine.name, name))
        first = application if application.run == 1 else engine.find(name, 1)
        if known["id"] == first.id:  # else it was made elsewhere, or by a Python call
            return str(known["package"])
    return ""


def missed_file(caller: Caller, engine: str, application: Application) -> str:
    """A sentence about a file that the program has not found, but that is beside its sources on
    this machine, with the way to ship it; "" if there is none."""
    verdict = application.status.verdict
    cause = verdict.cause if verdict is not None else None
    if cause is None:
        return ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = read_json(_place(caller, engine, application.name))["files"]
        for match in _NOT_FOUND.finditer(cause.last_lines):
            name = os.path.normpath(next(filter(None, match.groups())))
            if name.startswith(("/", "..")):
                continue
            for source in map(Path, known):
                path = source.parent / name
                if str(path) not in known and path.exists():
                    way = _way_to_ship(path, name, source.parent, caller.cwd)
                    return f"{name} lies beside the program and was not shipped: {way}"
    return ""


def _way_to_ship(path: Path, name: str, folder: Path, cwd: Path) -> str:
    """The flag that ships `path` under the name by which the program opens it, below `folder`. A
    file is shipped under its last name, and a folder's content without the folder."""
    first, *below = Path(name).parts
    if below or path.is_dir():
        return f"--files {_short(str(folder), cwd)} (the folder above {first}/)"
    return f"--files {_short(str(path), cwd)}"


def forget(caller: Caller, engine: Engine, name: str) -> None:
    """Deletes the record of an application that was destroyed."""
    with contextlib.suppress(OSError):
        _place(caller, engine.name, name).unlink()


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


def _named(paths: list[str], cwd: Path) -> str:
    shown = [_short(path, cwd) for path in paths[:_NAMED]]
    more = len(paths) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _short(path: str, cwd: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(Path(path).relative_to(cwd))
    return path
