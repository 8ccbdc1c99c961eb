"""The findings of `tfapp doctor`."""

from __future__ import annotations

import contextlib
import email.utils
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from tfapp.compiler.store import CACHE
from tfapp.disk import size_of
from tfapp.errors import TfappError
from tfapp.frozen import frozen

OK, WARNING, PROBLEM = "ok", "warning", "problem"

OLDEST_PYTHON = (3, 9)
ENOUGH_ROOM = 1 << 30  # bytes
SKEW = 30.0  # seconds that clocks may differ by: credentials are valid from when they are made
Skews = Mapping[str, "float | None"]  # of servers by name: see `ahead`


@frozen
class Finding:
    """A result. `level`: OK, WARNING (some applications cannot run) or PROBLEM (no application can
    run). `hint`: what to do."""

    subject: str
    level: str
    text: str
    hint: str = ""


def checked(subject: str, check: Callable[[], str]) -> Finding:
    """OK with the text that `check` returns, or a problem with the error that it raises."""
    try:
        return Finding(subject, OK, check())
    except TfappError as error:
        return Finding(subject, PROBLEM, error.message, error.hint)


def examine_here(home: Path) -> Iterator[Finding]:
    """Checks the requirements of every engine: this Python, and a folder for the state."""
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < OLDEST_PYTHON
    hint = "Install tfapp for Python 3.9 or newer." if old else ""
    yield Finding("python", PROBLEM if old else OK, f"{version}, {sys.executable}", hint)
    yield examine_home(home)


def tensorflow_version() -> str:
    """The version of the TensorFlow beside tfapp, "" if there is none. Does not import it."""
    if importlib.util.find_spec("tensorflow") is None:
        return ""
    for name in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "of unknown version"


def ahead(date: str | None, now: float) -> float | None:
    """How many seconds the clock of a server is ahead, to a second, by the `Date` of its answer;
    None if that is no time. `now`: seconds since 1970."""
    try:
        return email.utils.parsedate_to_datetime(date or "").timestamp() - now
    except (TypeError, ValueError):
        return None


def examine_clocks(skews: Skews) -> Finding:
    """Compares the clocks of servers with that of this machine."""
    known = {name: skew for name, skew in skews.items() if skew is not None}
    if not known:
        text = f"the time of {_named(skews)} is not known"
        return Finding("clocks", WARNING, text, "Compare the clocks by hand.")
    name, worst = max(known.items(), key=lambda item: abs(item[1]))
    if abs(worst) > SKEW:
        relation = "ahead of" if worst > 0 else "behind"
        text = f"the clock of {name} is {abs(worst):.0f} s {relation} this one"
        return Finding("clocks", PROBLEM, text, "Have all machines set their clocks by NTP.")
    return Finding("clocks", OK, f"this machine is within {SKEW:g} s of {_named(known)}")


def _named(servers: Collection[str]) -> str:
    return f"{len(servers)} nodes" if len(servers) > 1 else "".join(servers)


def as_size(size: float) -> str:
    """A number of bytes as "0 MiB", "812 MiB" or "1.5 GiB"."""
    return f"{size / (1 << 20):.0f} MiB" if size < 1 << 30 else f"{size / (1 << 30):.1f} GiB"


def examine_home(home: Path) -> Finding:
    """Checks that TFAPP_HOME is writable and has free space. It need not exist."""
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        text = f"{place} is not a folder that can be written"
        return Finding("home", PROBLEM, text, "Set TFAPP_HOME to a folder of your own.")
    free = shutil.disk_usage(place).free
    text = f"{home}, {as_size(free)} free, {as_size(size_of(home / CACHE))} in its cache"
    if free < ENOUGH_ROOM:
        hint = "Free some space there, or set TFAPP_HOME to a folder on another disk."
        return Finding("home", WARNING, text, hint)
    return Finding("home", OK, text)
