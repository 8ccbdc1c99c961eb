"""What earlier applications of a name have left in its checkpoint folder: told, moved aside, or
deleted, where this machine sees what the containers see."""

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
    """Before an application that saves into `folder` is made: says that there are files of an
    earlier one, or moves them aside with `fresh`. UsageError where that cannot be done from
    here."""
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
    """What becomes of the files that a destroyed application has saved in `folder`, in words. With
    `delete` they are deleted where it was tfapp that chose their place. "" where there is none, or
    none that is known."""
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
    """The folder on this machine, None where it is not what containers see, or none that lasts."""
    return Path(folder) if folder.startswith("/") and engine.sees_home else None


def _has_files(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(path.iterdir())
    return False


def _free(path: Path) -> Path:
    """A new name beside it, "mnist.before-20261123-144500"."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    wanted, number = path.with_name(f"{path.name}.before-{stamp}"), 1
    while wanted.exists():
        number += 1
        wanted = path.with_name(f"{path.name}.before-{stamp}-{number}")
    return wanted
