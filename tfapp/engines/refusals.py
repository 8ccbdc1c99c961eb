"""The errors with which every engine refuses a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from tfapp.close_match import close_match
from tfapp.disk import read_json
from tfapp.errors import (
    BadStateError,
    ExistsError,
    InUseError,
    NotFoundError,
    UnknownApplicationError,
)

T = TypeVar("T")


class DamagedError(BadStateError):
    """A file of an application cannot be read."""


def unknown(
    name: str, known: Iterable[str], where: str = "", flags: str = ""
) -> UnknownApplicationError:
    """`known`: the names that there are. `where`: in which place, if the user has to be told.
    `flags`: what `tfapp list` needs to show them, " --engine yarn"."""
    match = close_match(name, known)
    hint = f"Did you mean {match}?" if match else f"`tfapp list{flags}` shows all."
    return UnknownApplicationError(f"there is no application {name}{where}", hint)


def no_such_run(name: str, number: int, runs: Iterable[int]) -> NotFoundError:
    """`runs`: those that there are."""
    return NotFoundError(f"{name} has no run {number}", f"Its runs: {', '.join(map(str, runs))}.")


def exists(name: str) -> ExistsError:
    """The name is taken."""
    return ExistsError(
        f"there is an application {name} already",
        f"`tfapp start {name}` runs it again as it was, --replace puts what you have now in its "
        f"place, `tfapp destroy {name}` forgets it.",
    )


def in_use(name: str, flags: str = "") -> InUseError:
    """It runs. `flags`: what `tfapp stop` needs to find it, " --engine yarn"."""
    return InUseError(f"{name} is running", f"`tfapp stop {name}{flags}` ends it.")


def starting(name: str) -> BadStateError:
    """Its master does not serve yet."""
    return BadStateError(f"{name} is just being started", "Try again in a moment.")


def not_running(name: str) -> BadStateError:
    """It has ended."""
    return BadStateError(f"{name} is not running", f"`tfapp start {name}` runs it again.")


def no_checkpoints(name: str) -> NotFoundError:
    """It has no checkpoint folder that lasts."""
    return NotFoundError(
        f"{name} has no checkpoint folder that outlives its containers",
        "Set site.global.user.checkpoint.prefix to a folder that every instance sees.",
    )


def no_stored_file(path: str, place: str) -> NotFoundError:
    """`place`: the checkpoint folder. `path`: "" for the folder itself."""
    if path:
        return NotFoundError(
            f"there is no {path} in {place}", "Without PATH, all files of the folder are fetched."
        )
    return NotFoundError(
        f"there is no folder {place}", "Nothing has been saved, or it was deleted."
    )


def read_kept(path: Path, make: Callable[[Any], T]) -> T | None:
    """`make` of the JSON in a file of an application, None when there is no such file.
    DamagedError when it cannot be read: a crash has cut it off, or a newer tfapp has written it."""
    try:
        data = read_json(path)
        return None if data is None else make(data)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DamagedError(
            f"{path} cannot be read: {reason}",
            "A crash may have damaged it, or a newer tfapp has written it. `tfapp destroy` deletes "
            "the application.",
        ) from error
