"""Reads the growing logs of an application, and prints new lines of several logs."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tfapp import threads
from tfapp.close_match import did_you_mean
from tfapp.contract.log_times import Times
from tfapp.contract.names import OWN_LINE
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.base import Application, Engine, LogFile
from tfapp.errors import ForbiddenError, NotFoundError, UnavailableError, UnreachableError
from tfapp.launch.caller import Caller
from tfapp.launch.follow import States, Survived

# Seconds between two checks for new output.
LOOK_EVERY = 0.1
# Seconds between two requests for the list of logs, once there are any. The list takes much longer
# than a check for new output.
LIST_EVERY = 0.5

# Logs of the machinery: shown when they are asked for.
_MACHINERY = ("coordinator", "master")

_CHUNK = 1 << 16  # bytes read at once
_MOST = 1 << 20  # bytes of a log in memory


class Tail:
    """A log file that grows: `read_new` gives what was written since the last call, at first all of
    it or its `last` lines."""

    def __init__(self, path: Path, last: int | None = None):
        self.path = path
        self.position = 0  # in bytes: the next one to be read
        self._last = last
        self._skipped = 0
        self._file: BinaryIO | None = None

    def skip_to(self, place: int) -> None:
        """Leaves out the lines that end before byte `place`, if nothing has been read yet."""
        self._skipped = place

    def read_new(self) -> Iterable[bytes]:
        """The new bytes, in pieces; none while the file does not exist."""
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except FileNotFoundError:
                return
            if self._last is not None:
                self.position = last_lines_at(self._file, self._last)
            if self._skipped > self.position:
                self.position = line_at(self._file, self._skipped)
            self._file.seek(self.position)
        while piece := self._file.read(_CHUNK):
            self.position += len(piece)
            yield piece

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def last_lines_at(file: BinaryIO, count: int) -> int:
    """The offset at which the last `count` lines of a file begin. An unfinished line counts."""
    end = file.seek(0, os.SEEK_END)
    return _lines_before(file, end, count)


def line_at(file: BinaryIO, place: int) -> int:
    """The offset at which the line with byte `place` begins."""
    return _lines_before(file, place + 1, 1)


def _lines_before(file: BinaryIO, end: int, count: int) -> int:
    """The offset at which the last `count` lines of the first `end` bytes begin."""
    place = end
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

    def read_lines(self, final: bool = False) -> Iterator[list[bytes]]:
        """The new whole lines, each with its newline, in lists of about _MOST bytes. `final`: an
        unfinished last one too. A line of more than _MOST bytes comes in parts, as lines."""
        more = True
        while more:
            data = self._rest + b"".join(self._some())
            more = len(data) >= _MOST
            place = self._tail.position - len(data)
            whole, newline, self._rest = data.rpartition(b"\n")
            lines = _lines(whole + newline)
            if self._rest and (final and not more or more and not lines):
                lines.append(self._rest + b"\n")
                self._rest = b""
            shown = self._shown(place, lines)
            if shown:
                yield shown

    def _some(self) -> Iterator[bytes]:
        """The next new bytes, in pieces: until there are none, or _MOST."""
        size = len(self._rest)
        if size < _MOST:
            for piece in self._tail.read_new():
                yield piece
                size += len(piece)
                if size >= _MOST:
                    return

    def _shown(self, place: int, lines: list[bytes]) -> list[bytes]:
        """What becomes of lines that begin at byte `place`."""
        return lines

    def close(self) -> None:
        self._tail.close()


class TimedTail(LineTail):
    """A `LineTail` that knows when lines were written: it leaves out those before `since`, in
    seconds since 1970, and with `stamped` sets the time before each. Lines of which that is not
    known are given all the same, behind a "-"."""

    def __init__(
        self, path: Path, last: int | None = None, since: float | None = None, stamped: bool = False
    ):
        self._times = Times(path)
        self._since = since
        self._stamped = stamped
        super().__init__(path, last)
        if since is not None and path.exists():
            size = path.stat().st_size
            if self._times.update():
                begin = self._times.since(since)
                self._tail.skip_to(size if begin is None else begin)

    @property
    def timeless(self) -> bool:
        """Whether there are lines, and none of their times is known."""
        return self._tail.position > 0 and not self._times.update()

    def _shown(self, place: int, lines: list[bytes]) -> list[bytes]:
        self._times.update()
        found = []
        last, stamp = None, _stamp(None)
        for line in lines:
            at = self._times.at(place)
            place += len(line)
            if at is None or self._since is None or at >= self._since:
                if at != last:  # many lines have one time
                    last, stamp = at, _stamp(at)
                found.append(b"%s %s" % (stamp, line) if self._stamped else line)
        return found


def _stamp(at: float | None) -> bytes:
    """A local date and time, and its distance to UTC (RFC 3339)."""
    if at is None:
        return b"-"
    moment = datetime.datetime.fromtimestamp(at).astimezone()
    return moment.isoformat(timespec="milliseconds").encode()


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
    """The lines of a piece, with their newlines. Only a newline ends a line."""
    *whole, last = piece.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def primary_instance(status: ApplicationStatus) -> InstanceStatus | None:
    """The instance whose output stands for the application's: the chief, else the first worker,
    else the first of all that take part. None while no instance is known."""
    absent = {instance.instance for instance in status.absent}
    there = [i for i in status.instances if i.instance not in absent] or status.instances
    for role in ("chief", "worker"):
        for instance in there:
            if instance.role == role:
                return instance
    return there[0] if there else None


def select_logs(logs: Sequence[LogFile], what: str) -> tuple[LogFile, ...]:
    """The logs that `what` means: "worker/1" one instance's, "worker" a component's, "" all."""
    return tuple(log for log in logs if what in ("", log.instance, log.instance.rpartition("/")[0]))


class LogPrinter:
    """Prints new output of the logs that `what` selects (`select_logs`), by default those of all
    instances. Each line begins with the name of its instance. If `what` is one instance, its output
    is printed as it is, one container after the other; with `parted`, tfapp's own lines go to
    standard error. `last`: begins with this number of lines of each log. `since`, `stamped`: see
    TimedTail."""

    def __init__(
        self,
        caller: Caller,
        engine: Engine,
        application: Application,
        what: str,
        parted: bool = False,
        last: int | None = None,
        since: float | None = None,
        stamped: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._caller, self._engine, self._application = caller, engine, application
        self._what = what
        self._as_it_is = "/" in what or what in _MACHINERY
        self._tails: dict[Path, LineTail | Tail] = {}
        self._parted = parted
        self._last = last
        self._since, self._stamped = since, stamped
        self._own_lines: dict[Path, OwnLines] = {}
        self._written = Path(), True  # the log written last, and whether at the end of a line
        self._clock = clock
        self._listed: tuple[LogFile, ...] = ()
        self._listed_until = 0.0
        self._listing: LogListing | None = None

    @contextlib.contextmanager
    def listing_aside(self) -> Iterator[None]:
        """A context manager: meanwhile a thread of its own asks which logs there are. Printing does
        not wait for an engine that does not answer."""
        self._listing = LogListing(self._logs)
        try:
            yield
        finally:
            self._listing.close()
            self._listing = None

    def may_come(self) -> bool:
        """Whether there can be a log that `what` means: there is an instance of this name, or it
        is not known yet which instances there are."""
        instances = self._application.status.instances
        known = {i.instance for i in instances} | {i.component for i in instances}
        return not self._what or not known or self._what in known | set(_MACHINERY)

    @property
    def found(self) -> bool:
        return any(path.exists() for path in self._tails)

    def tell_missing(self) -> None:
        """Says which of the logs that were printed last cannot be had, and why; before that, of
        those that there are."""
        for log in self._listed or self._logs():
            if log.missing:
                rest = "the rest of its log" if log.path.exists() else "its log"
                self._caller.note(f"{log.instance}: {rest} cannot be read now: {log.missing}")
            tail = self._tails.get(log.path)
            if isinstance(tail, TimedTail) and tail.timeless:
                self._caller.note(f"{log.instance}: when its lines were written is not known")

    def print_new(self, final: bool = False) -> None:
        """Prints what has been written since the last call; `final`: unfinished lines too, and all
        logs that there are by now."""
        if self._listing is not None and not final:
            self._listed = self._listing.logs
        elif final or not self._listed or self._clock() >= self._listed_until:
            self._listed = self._logs()
            self._listed_until = self._clock() + LIST_EVERY
        for log in self._listed:
            tail = self._tails.get(log.path)
            if tail is None:
                last = self._last if log.path.exists() else None
                tail = self._tails[log.path] = self._open(log.path, last)
            if isinstance(tail, Tail):
                for piece in tail.read_new():
                    self._write(log.path, piece)
            else:
                prefix = b"" if self._as_it_is else f"{log.instance} | ".encode()
                for lines in tail.read_lines(final):
                    self._caller.write(b"".join(prefix + line for line in lines))
        self._last = None  # of what comes later nothing is left out

    def _open(self, path: Path, last: int | None) -> Tail | LineTail:
        if self._since is not None or self._stamped:
            return TimedTail(path, last, self._since, self._stamped)
        return (Tail if self._as_it_is else LineTail)(path, last)

    def _write(self, path: Path, piece: bytes) -> None:
        before, ended = self._written
        if path != before and not ended:
            self._caller.write(b"\n")  # another container's last line is unfinished
        self._written = path, piece.endswith(b"\n")
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
        logs = f"Logs: {', '.join(siblings or known) or 'none'}."
        hint = logs if siblings else did_you_mean(self._what, known, logs)
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


class LogListing:
    """Asks `look` for the logs every LIST_EVERY seconds, in a thread. An engine that does not
    answer is asked again."""

    def __init__(self, look: Callable[[], tuple[LogFile, ...]]):
        self._look = look
        self._found: tuple[LogFile, ...] = ()
        self._error: Exception | None = None
        self._closed = threading.Event()
        self._thread = threads.start_surely("list-logs", self._go_on)

    @property
    def logs(self) -> tuple[LogFile, ...]:
        """The logs as last known. Raises what `look` has raised if asking again is no use."""
        if self._error is not None:
            raise self._error
        return self._found

    def close(self) -> None:
        """Waits for the call that is under way."""
        self._closed.set()
        self._thread.join()

    def _go_on(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    self._found = self._look()
                except (UnavailableError, UnreachableError) as error:
                    if isinstance(error, ForbiddenError):
                        raise
                self._closed.wait(LIST_EVERY)
        except Exception as error:  # handed to the thread that prints
            self._error = error


def follow_logs(
    printer: LogPrinter, engine: Engine, application: Application, caller: Caller
) -> None:
    """Prints until the application has ended. Notes what it waits for, the failures that it
    survives, and that the engine does not answer."""
    states = States(engine, application.name, application.run)
    told, survived = "", Survived(caller, application)
    with printer.listing_aside():
        while True:
            try:
                changed = states.next(LOOK_EVERY)
            except EOFError:
                return
            finally:
                printer.print_new()
            if changed is None:
                continue
            survived.tell(changed)
            if changed.waits != told:
                told = changed.waits
                if told:
                    caller.note(f"{application.name} waits: {told}")
