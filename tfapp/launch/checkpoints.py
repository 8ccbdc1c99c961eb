"""The files that earlier applications of the same name have left in the checkpoint folder:
reported, moved aside or deleted. Works only where this machine sees the same folder as the
containers."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

from tfapp.contract.names import OUTPUTS
from tfapp.disk import delete_tree, writing
from tfapp.engines.base import Engine
from tfapp.errors import TfappError, UsageError
from tfapp.launch.caller import Caller

PLACE = "checkpoints"  # below TFAPP_HOME: where the user names no prefix


def prepare(folder: str, engine: Engine, caller: Caller, fresh: bool) -> None:
    """Called before an application is created that saves into `folder`. Notes that the folder has
    files of an earlier application; with `fresh`, moves them aside. UsageError if that cannot be
    done from this machine."""
    path = _seen(folder, engine)
    if path is None:
        if fresh and folder:
            raise UsageError(
                f"--fresh: this machine does not see the checkpoints in {folder}",
                "Move them by hand, or set another site.global.user.checkpoint.prefix.",
            )
        return
    if not _has_files(path):
        return
    if not fresh:
        caller.note(
            f"{path} has files of an earlier application: the program may go on from them "
            "(--fresh moves them aside)"
        )
        return
    aside = _free(path)
    with writing(path):
        path.rename(aside)
    caller.note(f"the files of an earlier application are in {aside} now")


def kept_by(name: str, engine: Engine) -> str:
    """What the next run of the application `name` finds in its checkpoint folder, as a sentence. ""
    where this machine does not see the folder of the containers."""
    with contextlib.suppress(TfappError), engine.checkpoints(name) as checkpoints:
        path = _seen(checkpoints.place, engine)
        if path is not None and _has_files(path):
            return f"it may go on from what earlier runs have saved in {path}"
        if path is not None:
            return f"it begins anew: earlier runs have left nothing in {path}"
    return ""


def settle(folder: str, engine: Engine, caller: Caller, delete: bool) -> str:
    """Decides what happens to the files in `folder` when its application is destroyed, and returns
    a sentence about it. With `delete` they are deleted, if tfapp chose the folder. "" where there
    are no files, or none that this machine can see."""
    path = _seen(folder, engine)
    places = [folder]
    if path is not None:
        places = [place for place in (folder, f"{folder}{OUTPUTS}") if _has_files(Path(place))]
        if not places:
            return "it has saved nothing"
    if not folder or not delete:
        return f"its files stay in {' and '.join(places)}" if folder else ""
    if path is None or path.parent != caller.home / PLACE:
        return f"its files stay in {' and '.join(places)}, which is not tfapp's own place"
    for place in places:
        with writing(path):
            delete_tree(Path(place))
    return f"its files in {' and '.join(places)} are deleted"


def _seen(folder: str, engine: Engine) -> Path | None:
    """The folder on this machine. None where containers see another one, or where it ends with the
    container."""
    return Path(folder) if folder.startswith("/") and engine.sees_home else None


def _has_files(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(path.iterdir())
    return False


def _free(path: Path) -> Path:
    """A new name beside the folder, such as "mnist.before-20261123-144500"."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    wanted, number = path.with_name(f"{path.name}.before-{stamp}"), 1
    while wanted.exists():
        number += 1
        wanted = path.with_name(f"{path.name}.before-{stamp}-{number}")
    return wanted
