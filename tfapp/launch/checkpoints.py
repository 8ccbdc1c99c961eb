"""The files that earlier applications of the same name have left in the checkpoint folder:
reported, moved aside or deleted. Works only where this machine sees the same folder as the
containers."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

from tfapp.disk import delete_tree, writing
from tfapp.engines.base import Engine
from tfapp.errors import UsageError
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


def settle(folder: str, engine: Engine, caller: Caller, delete: bool) -> str:
    """Decides what happens to the files in `folder` when its application is destroyed, and returns
    a sentence about it. With `delete` they are deleted, if tfapp chose the folder. "" where there
    are no files, or none that this machine can see."""
    path = _seen(folder, engine)
    if path is not None and not _has_files(path):
        return "it has saved nothing"
    if not folder or not delete:
        return f"its checkpoints stay in {folder}" if folder else ""
    if path is None or path.parent != caller.home / PLACE:
        return f"its checkpoints stay in {folder}, which is not tfapp's own place"
    with writing(path):
        delete_tree(path)
    return f"its checkpoints in {folder} are deleted"


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
