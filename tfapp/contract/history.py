"""A run in a history: what stays of it after its end, and the name of its folder there, which tells
enough to list it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from tfapp.contract.names import FINAL_STATES
from tfapp.frozen import frozen

# In the folder of a run.
STATUS_FILE = "status.json"  # class ApplicationStatus
LOGS_FILE = "logs.json"  # instance -> the last lines of its program
REPORT_FILE = "report.html"

MAX_LOGS = 4 << 20  # bytes of the logs of all instances of a run
MAX_FILE = 64 << 20  # bytes of a file that is read
_MAX_NAME = 250  # bytes of the name of a folder; most file systems allow 255
_TIME = "%Y%m%dT%H%M%SZ"
_READ = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)  # 5 times as fast


@frozen
class PastRun:
    """A run of an application that has ended. Times: whole seconds since 1970. `id`: that of the
    run at its engine. `size`: of its files, in bytes. `tags`: the user's, as many of them as have
    room in the name."""

    ended: int
    started: int
    state: str
    user: str
    name: str
    id: str
    size: int = 0
    tags: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its folder: "20261127T201500Z,3600,SUCCEEDED,ann,mnist,24310,nightly,ID".
        The older of two has the lesser name."""
        at = datetime.datetime.fromtimestamp(self.ended, datetime.timezone.utc)
        first = (at.strftime(_TIME), str(max(self.ended - self.started, 0)), self.state)
        rest = (self.user, self.name, str(self.size))
        tags = self.tags
        while True:
            told = "+".join(map(_written, tags))
            name = ",".join((*first, *map(_written, rest), told, _written(self.id)))
            if len(name) <= _MAX_NAME or not tags:
                return name
            tags = tags[:-1]

    @classmethod
    def of(cls, folder: str) -> PastRun | None:
        """The run with this name of a folder; None where it is no such name."""
        try:
            at, seconds, state, user, name, size, tags, id = folder.split(",")
            parts = _READ.fullmatch(at)
            if parts is None:
                return None
            year, month, day, hour, minute, second = map(int, parts.groups())
            zone = datetime.timezone.utc
            ended = datetime.datetime(year, month, day, hour, minute, second, tzinfo=zone)
            moment, told = int(ended.timestamp()), tuple(filter(None, tags.split("+")))
            return cls(
                ended=moment,
                started=moment - int(seconds),
                state=_known(state),
                user=_read(user),
                name=_read(name),
                id=_read(id),
                size=int(size),
                tags=tuple(map(_read, told)),
            )
        except ValueError:
            return None


def past_runs(folders: Iterable[str]) -> list[PastRun]:
    """The runs with these names of folders, the newest first. Other names are left out."""
    found = (PastRun.of(folder) for folder in sorted(folders, reverse=True))
    return [run for run in found if run is not None]


def surplus(runs: Iterable[PastRun], now: float, age: float, size: int) -> list[PastRun]:
    """Those of `runs`, the newest first, that ended more than `age` seconds before `now` (seconds
    since 1970), or for which all of `size` bytes are taken by newer ones. 0: no such limit."""
    found, taken = [], 0
    for run in runs:
        taken += run.size
        if (age and run.ended < now - age) or (size and taken > size):
            found.append(run)
    return found


def _written(text: str) -> str:
    """ASCII letters, digits, `_.-~`, and `=` before two digits: names on every store."""
    return quote(text, safe="").replace("%", "=")


def _read(text: str) -> str:
    """ValueError for what moves a terminal: anybody may have written it."""
    found = unquote(text.replace("=", "%"))
    if not found.isprintable():
        raise ValueError(f"{text!r} is no text")
    return found


def _known(state: str) -> str:
    if state not in FINAL_STATES:
        raise ValueError(f"{state!r} is not the end of a run")
    return state
