"""The files that earlier applications of the same name have left in the checkpoint folder:
reported, moved aside or deleted. Works only where this machine sees the same folder as the
containers."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from pathlib import Path
from typing import Protocol

from tfapp import threads
from tfapp.contract.names import OUTPUTS
from tfapp.disk import delete_tree, writing
from tfapp.engines.base import Engine
from tfapp.errors import TfappError, UnavailableError, UsageError
from tfapp.launch.caller import Caller
from tfapp.storage import folders
from tfapp.storage.base import Store

PLACE = "checkpoints"  # below TFAPP_HOME: where the user names no prefix
LOOK_LIMIT = 10.0  # seconds for a look at a URL


def home_of(engine: Engine, caller: Caller, tensorflow: bool = True) -> str:
    """The folder of checkpoints, a path or a URL, where the user names no prefix. "" where there is
    none: the containers see no folder that lasts, or one that only TensorFlow opens, and programs
    do not need TensorFlow."""
    if engine.sees_home:
        return str(caller.home / PLACE)
    return engine.checkpoint_home() if tensorflow else ""


def prepare(folder: str, engine: Engine, caller: Caller, fresh: bool, schemes: str = "") -> None:
    """Called before an application is created that saves into `folder`. Notes that the folder has
    files of an earlier application; with `fresh`, moves them aside. `schemes`:
    ApplicationStatus.storage_schemes. UsageError if that cannot be done from this machine."""
    try:
        place = _seen(folder, engine, schemes)
        why = "" if place else f"this machine does not see the checkpoints in {folder}"
        used = place is not None and place.has_files()
    except UnavailableError as error:
        place, why = None, error.message
    if place is None:
        if fresh and folder:
            raise UsageError(
                f"--fresh: {why}",
                "Move them by hand, or set another site.global.user.checkpoint.prefix.",
            )
        return
    if not used:
        return
    if not fresh:
        caller.note(
            f"{folder} has files of an earlier application: the program may go on from them "
            "(--fresh moves them aside)"
        )
        return
    caller.note(f"the files of an earlier application are in {place.move_aside()} now")


def kept_by(name: str, engine: Engine) -> str:
    """What the next run of the application `name` finds in its checkpoint folder, as a sentence. ""
    where this machine does not see the folder of the containers."""
    with contextlib.suppress(TfappError), engine.checkpoints(name) as checkpoints:
        schemes = engine.find(name).status.storage_schemes
        place = _seen(checkpoints.place, engine, schemes)
        if place is not None and place.has_files():
            return f"it may go on from what earlier runs have saved in {checkpoints.place}"
        if place is not None:
            return f"it begins anew: earlier runs have left nothing in {checkpoints.place}"
    return ""


def settle(folder: str, engine: Engine, caller: Caller, delete: bool, schemes: str = "") -> str:
    """Decides what happens to the files in `folder` when its application is destroyed, and returns
    a sentence about it. With `delete` they are deleted, if tfapp chose the folder. `schemes`: see
    `prepare`. "" where there are no files, or none that this machine can see."""
    kept = [folder]
    place = None
    with contextlib.suppress(UnavailableError):
        place = _seen(folder, engine, schemes)
        if place is not None:
            both = (folder, f"{folder}{OUTPUTS}")
            kept = [
                one for one in both if (found := _seen(one, engine, schemes)) and found.has_files()
            ]
            if not kept:
                return "it has saved nothing"
    if not folder or not delete:
        return f"its files stay in {' and '.join(kept)}" if folder else ""
    if place is None or folder.rpartition("/")[0] != home_of(engine, caller):
        return f"its files stay in {' and '.join(kept)}, which is not tfapp's own place"
    for one in kept:
        found = _seen(one, engine, schemes)
        assert found is not None
        found.delete()
    return f"its files in {' and '.join(kept)} are deleted"


class _Place(Protocol):
    """A folder that this machine sees, and that need not exist. UnavailableError where it cannot be
    used."""

    def has_files(self) -> bool: ...
    def move_aside(self) -> str: ...
    def delete(self) -> None: ...


def _seen(folder: str, engine: Engine, schemes: str) -> _Place | None:
    """None where containers see another folder, or where it ends with the container.
    UnavailableError for a URL without its library."""
    if folder.startswith("/"):
        return _Local(Path(folder)) if engine.sees_home else None
    store = folders.store_of(folder, schemes=schemes)
    return None if store is None else _Remote(store, folder)


class _Local:
    def __init__(self, path: Path):
        self._path = path

    def has_files(self) -> bool:
        with contextlib.suppress(OSError):
            return any(self._path.iterdir())
        return False

    def move_aside(self) -> str:
        names = map(self._path.with_name, _free_names(self._path.name))
        aside = next(path for path in names if not path.exists())
        with writing(self._path):
            self._path.rename(aside)
        return str(aside)

    def delete(self) -> None:
        with writing(self._path):
            delete_tree(self._path)


class _Remote:
    def __init__(self, store: Store, url: str):
        self._store, self._url = store, url

    def has_files(self) -> bool:
        """A store that does not answer soon is not waited for."""
        found: list[bool] = []
        errors: list[UnavailableError] = []

        def look() -> None:
            try:
                with folders.opening(self._url):
                    found.append(bool(self._store.children(self._url)))
            except FileNotFoundError:
                found.append(False)
            except UnavailableError as error:
                errors.append(error)

        threads.start("tfapp-checkpoints", look).join(LOOK_LIMIT)
        if not found:
            late = UnavailableError(f"{self._url}: no answer within {LOOK_LIMIT:g} s")
            raise next(iter(errors), late)
        return found[0]

    def move_aside(self) -> str:
        above, _, name = self._url.rpartition("/")
        for free in _free_names(name):
            aside = f"{above}/{free}"
            with folders.opening(aside):
                try:
                    self._store.stat(aside)
                except FileNotFoundError:
                    self._store.rename(self._url, aside)
                    return aside
        raise AssertionError("names do not end")

    def delete(self) -> None:
        with folders.opening(self._url), contextlib.suppress(FileNotFoundError):
            self._store.remove_tree(self._url)


def _free_names(name: str) -> itertools.chain[str]:
    """Names for what was called `name`, such as "mnist.before-20261123-144500"."""
    wanted = f"{name}.before-{datetime.datetime.now().strftime('%Y%m%d-%H%M%S')}"
    return itertools.chain([wanted], (f"{wanted}-{number}" for number in itertools.count(2)))
