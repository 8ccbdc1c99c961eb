"""Errors that all engines have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from tfapp.close_match import did_you_mean
from tfapp.disk import read_json
from tfapp.errors import (
    BadStateError,
    ExistsError,
    InUseError,
    NotFoundError,
    UnknownApplicationError,
)

CRASH = "A crash may have damaged it"

T = TypeVar("T")


class DamagedError(BadStateError):
    """A file of an application cannot be read."""


def unknown(
    name: str, known: Iterable[str], where: str = "", flags: str = ""
) -> UnknownApplicationError:
    """There is no application `name`. `known`: the existing names. `where`: the place that was
    searched, if it is worth mentioning. `flags`: those with which `tfapp list` shows them, such as
    " --engine yarn"."""
    hint = did_you_mean(name, known, f"`tfapp list{flags}` shows all.")
    return UnknownApplicationError(f"there is no application {name}{where}", hint)


def no_such_run(name: str, number: int, runs: Iterable[int]) -> NotFoundError:
    """There is no run with this number. `runs`: the existing numbers."""
    return NotFoundError(f"{name} has no run {number}", f"Its runs: {', '.join(map(str, runs))}.")


def exists(name: str) -> ExistsError:
    return ExistsError(
        f"there is an application {name} already",
        f"--replace runs the present files in its place. Once it has ended, `tfapp start {name}` "
        f"runs it again as it was, and `tfapp destroy {name}` deletes it.",
    )


def in_use(name: str, flags: str = "") -> InUseError:
    """The application runs. `flags`: those with which `tfapp stop` finds it, such as " --engine
    yarn"."""
    return InUseError(f"{name} is running", f"`tfapp stop {name}{flags}` ends it.")


def starting(name: str) -> BadStateError:
    return BadStateError(f"{name} is just being started", "Try again in a moment.")


def not_running(name: str) -> BadStateError:
    return BadStateError(f"{name} is not running", f"`tfapp start {name}` runs it again.")


def no_checkpoints(name: str) -> NotFoundError:
    """The application has no checkpoint folder that outlives its containers."""
    return NotFoundError(
        f"{name} has no checkpoint folder that outlives its containers",
        "Set site.global.user.checkpoint.prefix to a folder that every instance sees.",
    )


def no_stored_file(path: str, place: str) -> NotFoundError:
    """There is no such file in the checkpoint folder `place`. `path`: "" for the folder itself."""
    if path:
        return NotFoundError(
            f"there is no {path} in {place}", "Without PATH, all files of the folder are fetched."
        )
    return NotFoundError(
        f"there is no folder {place}", "Nothing has been saved, or it was deleted."
    )


def read_kept(path: Path, make: Callable[[Any], T]) -> T | None:
    """Applies `make` to the JSON in a file of an application; None if there is no file.
    DamagedError if it cannot be read: it was truncated by a crash, or a newer tfapp has written it.
    """

    def read() -> T | None:
        try:
            data = read_json(path)
        except FileNotFoundError:
            return None
        return make(data)

    return undamaged(read, str(path), CRASH)


def read_if_whole(path: Path, make: Callable[[Any], T]) -> T | None:
    """As `read_kept`, for what can be had again: None also if the file cannot be read."""
    with contextlib.suppress(DamagedError):
        return read_kept(path, make)
    return None


def undamaged(read: Callable[[], T], what: str, why: str) -> T:
    """What `read` returns. DamagedError if it cannot read `what`; `why`: a possible cause."""
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, KeyError):
            reason = f"it has no {error}"
        raise damaged(f"{what} cannot be read: {reason}", why) from error


def damaged(message: str, why: str = CRASH) -> DamagedError:
    """`why`: a possible cause."""
    hint = f"{why}, or a newer tfapp has written it. `tfapp destroy` deletes the application."
    return DamagedError(message, hint)
