"""Growing logs of an application: which there are, what is new in them, several on one output."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tfapp.close_match import close_match
from tfapp.contract.names import OWN_LINE
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.base import Application, Engine, LogFile
from tfapp.errors import NotFoundError
from tfapp.launch.caller import Caller
from tfapp.launch.follow import Feed

# Seconds between two looks at growing logs.
LOOK_EVERY = 0.1
# Seconds for which a list of logs stands, once there are any: to ask for it takes much longer than
# to see that they have not grown.
LIST_EVERY = 0.5

# Logs of the machinery: shown when they are asked for.
_MACHINERY = ("coordinator", "master")

_CHUNK = 1 << 16  # bytes read at once


class Tail:
    """A log file that grows: `read_new` gives what was written since the last call, at first all of
    it or its `last` lines."""

    def __init__(self, path: Path, last: int | None = None):
        self.path = path
        self._last = last
        self._file: BinaryIO | None = None

    def read_new(self) -> Iterable[bytes]:
        """The new bytes, in pieces; none while the file does not exist."""
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except FileNotFoundError:
                return
            if self._last is not None:
                self._file.seek(last_lines_at(self._file, self._last))
        while piece := self._file.read(_CHUNK):
            yield piece

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


def last_lines_at(file: BinaryIO, count: int) -> int:
    """Where the last `count` lines of a file begin, an unfinished one being a line."""
    place = end = file.seek(0, os.SEEK_END)
    newlines = 0
    while place and count:
        size = min(_CHUNK, place)
        file.seek(place - size)
        piece = file.read(size)
        # The newline at the very end is that of the last line.
        found = piece.rfind(b"\n", 0, size - (place == end))
        while found >= 0:
            newlines += 1
            if newlines == count:
                return place - size + found + 1
            found = piece.rfind(b"\n", 0, found)
        place -= size
    return 0 if count else end


class LineTail:
    """A `Tail` that gives whole lines, for output that is mixed with another log's."""

    def __init__(self, path: Path, last: int | None = None):
        self._tail = Tail(path, last)
        self._rest = b""

    def read_lines(self, final: bool = False) -> list[bytes]:
        """The new whole lines, each with its newline. `final`: an unfinished last one too."""
        data = self._rest + b"".join(self._tail.read_new())
        whole, newline, self._rest = data.rpartition(b"\n")
        lines = (whole + newline).splitlines(keepends=True)
        if final and self._rest:
            lines.append(self._rest + b"\n")
            self._rest = b""
        return lines

    def close(self) -> None:
        """Closes the file."""
        self._tail.close()


class OwnLines:
    """Tells tfapp's own lines (`names.OWN_LINE`) from a program's in a log that comes in
    pieces. It holds back only what may become the beginning of such a line."""

    _BEGINNING = OWN_LINE.encode()

    def __init__(self) -> None:
        self._held = b""  # of a line of which it is not known yet whose it is
        self._own: bool | None = None  # whose the line is that has begun

    def split(self, piece: bytes) -> Iterator[tuple[bool, bytes]]:
        """(whether it is tfapp's own, part), in the order of the log."""
        for part in _lines(piece):
            if self._own is None:
                part = self._held + part
                self._held = b""
                if len(part) < len(self._BEGINNING) and self._BEGINNING.startswith(part):
                    self._held = part
                    continue
                self._own = part.startswith(self._BEGINNING)
            yield self._own, part
            if part.endswith(b"\n"):
                self._own = None

    def rest(self) -> bytes:
        """The bytes that were held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held


def _lines(piece: bytes) -> list[bytes]:
    """With their ends, which are newlines and nothing else."""
    *whole, last = piece.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def primary_instance(status: ApplicationStatus) -> InstanceStatus | None:
    """The instance whose output stands for the application's: the chief, else the first worker,
    else the first of all. None while no instance is known."""
    for role in ("chief", "worker"):
        for instance in status.instances:
            if instance.role == role:
                return instance
    return status.instances[0] if status.instances else None


def select_logs(logs: Sequence[LogFile], what: str) -> tuple[LogFile, ...]:
    """The logs that `what` means: "worker/1" one instance's, "worker" a component's, "" all."""
    return tuple(log for log in logs if not what or log.instance == what or _component(log) == what)


def _component(log: LogFile) -> str:
    return log.instance.rpartition("/")[0]


class LogPrinter:
    """Prints what is new in the logs that `what` means (`select_logs`). Without
    `what` that is all instances'. Lines of several instances are told apart by the instance's name
    before them; where `what` is one instance, its output is printed as it is, that of each
    container it had after the other; if it is `parted`, with tfapp's own lines on standard
    error. `last`: so many lines of each log that is there, and all that comes later."""

    def __init__(
        self,
        caller: Caller,
        engine: Engine,
        application: Application,
        what: str,
        parted: bool = False,
        last: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._caller, self._engine, self._application = caller, engine, application
        self._what = what
        self._as_it_is = "/" in what or what in _MACHINERY
        self._tails: dict[Path, LineTail | Tail] = {}
        self._parted = parted
        self._last = last
        self._own_lines: dict[Path, OwnLines] = {}
        self._clock = clock
        self._listed: tuple[LogFile, ...] = ()
        self._listed_until = 0.0

    def may_come(self) -> bool:
        """Whether there can be a log that `what` means: there is an instance of this name, or it
        is not known yet which instances there are."""
        instances = self._application.status.instances
        known = {i.instance for i in instances} | {i.component for i in instances}
        return not self._what or not known or self._what in known | set(_MACHINERY)

    @property
    def found(self) -> bool:
        """Whether any log has been there."""
        return any(path.exists() for path in self._tails)

    def tell_missing(self) -> None:
        """Says which logs cannot be had now, and why."""
        for log in self._logs():
            if log.missing:
                rest = "the rest of its log" if log.path.exists() else "its log"
                self._caller.note(f"{log.instance}: {rest} cannot be had now: {log.missing}")

    def print_new(self, final: bool = False) -> None:
        """Prints what has been written since the last call; `final`: unfinished lines too, and all
        logs that there are by now."""
        if final or not self._listed or self._clock() >= self._listed_until:
            self._listed = self._logs()
            self._listed_until = self._clock() + LIST_EVERY
        for log in self._listed:
            tail = self._tails.get(log.path)
            if tail is None:
                last = self._last if log.path.exists() else None
                tail = (Tail if self._as_it_is else LineTail)(log.path, last)
                self._tails[log.path] = tail
            if isinstance(tail, Tail):
                for piece in tail.read_new():
                    self._write(log.path, piece)
            else:
                prefix = f"{log.instance} | ".encode()
                lines = tail.read_lines(final)
                if lines:
                    self._caller.write(b"".join(prefix + line for line in lines))
        self._last = None  # of what comes later nothing is left out

    def _write(self, path: Path, piece: bytes) -> None:
        if not self._parted:
            self._caller.write(piece)
            return
        parts = self._own_lines.setdefault(path, OwnLines()).split(piece)
        for own, lines in itertools.groupby(parts, key=lambda part: part[0]):
            text = b"".join(line for _, line in lines)
            if own:
                self._caller.note(text.decode(errors="replace").rstrip("\n"))
            else:
                self._caller.write(text)

    def not_found(self) -> NotFoundError:
        """The error for a log that has not been there."""
        name = self._application.name
        if not self._what or self.may_come():
            what = f"log {self._what!r}" if self._what else "logs"
            when = " yet" if self._application.live else ""
            return NotFoundError(
                f"{name} has no {what}{when}", f"`tfapp status {name}` says how it stands."
            )
        known = [log.instance for log in self._all_logs()]
        known += [i.instance for i in self._application.status.instances if i.instance not in known]
        component = self._what.partition("/")[0]
        siblings = [name for name in known if name.partition("/")[0] == component]
        match = "" if siblings else close_match(self._what, known)
        logs = ", ".join(siblings or known) or "none"
        hint = f"Did you mean {match}?" if match else f"Logs: {logs}."
        return NotFoundError(f"{name} has no log {self._what!r}", hint)

    def close(self) -> None:
        """Closes all files, and prints what was held back."""
        for tail in self._tails.values():
            tail.close()
        for own_lines in self._own_lines.values():
            self._caller.write(own_lines.rest())

    def _logs(self) -> tuple[LogFile, ...]:
        logs = select_logs(self._all_logs(), self._what)
        return tuple(log for log in logs if self._what or log.instance not in _MACHINERY)

    def _all_logs(self) -> tuple[LogFile, ...]:
        return self._engine.logs(self._application.name, self._application.run)


def follow_logs(printer: LogPrinter, engine: Engine, application: Application) -> None:
    """Prints until the application has ended."""
    feed = Feed(engine, application.name, application.run)
    while True:
        try:
            feed.next(LOOK_EVERY)
        except EOFError:
            return
        finally:
            printer.print_new()
