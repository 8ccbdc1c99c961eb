"""Copies the logs of a run's pods to files under TFAPP_HOME.

The API returns lines from a time on, in order: a copy stores the number of its lines since that
time, and continues after them. A log that is followed is one answer of the API, which goes on as
long as the container, so that nothing is lost when the node begins a new file. A new answer begins
with the node's newest file: what it had written between the copy and that file is missing, and the
copy says so at that place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from tfapp import threads
from tfapp.contract.encoding import Coded
from tfapp.contract.log_times import TimesWriter
from tfapp.contract.names import CANNOT_START, LOG_BEGINS, OWN_LINE, RETURNED_LINE
from tfapp.disk import locked, make_private, write_json, writing
from tfapp.engines.base import LogFile
from tfapp.engines.container_files import log_order
from tfapp.engines.kubernetes import verdict
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.refusals import read_if_whole
from tfapp.errors import ForbiddenError, NotFoundError, TfappError, UnavailableError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.engines.kubernetes.api import KubernetesCluster

COORDINATOR = "coordinator"
MASTER = "master"
# What begins a line of the log of the master's pod that is the master's own; others are the
# coordinator's.
OF_MASTER = f"{OWN_LINE}master: ".encode()
RETURNED = RETURNED_LINE.encode()  # then a record: see tfapp.program.returned
BEGINNINGS = (LOG_BEGINS.encode(), CANNOT_START.encode())  # of the first line of an instance's log
COPY_EVERY = 1.0  # seconds between two copies of logs that grow and are not followed
FOLLOWED = 10.0  # seconds: logs that are asked for twice within this time are followed
IDLE_LIMIT = 600.0  # seconds after the last request in which logs are still followed
DRAIN_LIMIT = 10.0  # seconds without a line of a container that has ended, whose last are awaited
DRAIN_EVERY = 0.05  # seconds
RETRY = 0.2, 2.0  # seconds between two answers of the API to follow a log: the first, the longest
LOCK_LIMIT = 5.0  # seconds for another command that copies the same logs
MAX_READS = 8  # logs that are read at the same time
MAX_FOLLOWED = 100  # logs that are followed at the same time; others are copied every COPY_EVERY

# The files of a pod, beside its copy.
_POSITION, _OF_MASTER, _RETURNED = ".position.json", ".master.log", ".returned.json"
_SECONDS = 8  # of the newest lines, that are remembered one by one
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z")


@frozen
class LogPosition(Coded):
    """The progress of a copy. `size`: its bytes. `since`: a whole second, "" for the beginning.
    `count`: the number of its lines since then. `first`: the time of the first of these lines.
    `last`: the time of the last line. Times are as in the log. `number`: that of the last line,
    from the beginning of the copy. `gaps`: the places at which lines may be missing."""

    instance: str
    size: int = 0
    size_of_master: int = 0  # of the copy of the master's own lines
    since: str = ""
    count: int = 0
    first: str = ""
    last: str = ""
    whole: bool = False  # nothing more comes
    number: int = 0
    gaps: int = 0


@frozen
class PodLog:
    """The log of a pod's main container. `over`: it has ended. `lost`: why it is not available."""

    instance: str
    pod: str
    over: bool
    begun: bool = True
    lost: str = ""


class LogLine(NamedTuple):
    """A new line of a log. `at`: seconds since 1970. `number`: see LogPosition."""

    number: int
    at: float
    text: bytes


class PodLogs:
    """The logs of one run, copied to `folder`. `clock`: seconds from any start."""

    def __init__(
        self, cluster: KubernetesCluster, folder: Path, clock: Callable[[], float] = time.monotonic
    ):
        self._cluster = cluster
        self._folder = folder
        self._clock = clock
        self._missing: dict[str, str] = {}  # pod -> why its log cannot be had now
        self.awaited = False  # whether the ends of all containers were waited for
        self._next = 0.0
        self._asked = float("-inf")  # when `files` was last called
        self._sources: dict[str, PodLog] = {}  # pod -> its log, as last known
        self._followers: dict[str, threading.Thread] = {}  # by pod
        self._late: set[str] = set()  # pods whose last lines are not waited for any more

    def files(self, sources: Iterable[PodLog]) -> tuple[LogFile, ...]:
        """The copies, in the order of `sources`. Logs that have ended are copied to their ends; at
        the second of two calls logs that grow are followed from then on."""
        found = tuple(sources)
        began = self._clock()
        again, self._asked = began - self._asked < FOLLOWED, began
        self._sources = {source.pod: source for source in found if source.begun}
        self._await_ends()
        if again:
            self._follow(source for source in found if source.begun and not source.over)
        due = began >= self._next
        self.copy(
            [s for s in found if s.pod not in self._followers and (due or self._has_ended(s))]
        )
        if due:
            ended = self._clock()
            self._next = ended + max(COPY_EVERY, 2 * (ended - began))
        return tuple(log for source in found for log in self._logs(source))

    def close(self) -> None:
        """Ends the following of logs, each with its next line or the end of its connection."""
        self._asked = float("-inf")

    def _has_ended(self, source: PodLog) -> bool:
        """Whether one more copy is the last one."""
        return source.over and source.pod not in self._missing

    def returned(self, sources: Iterable[PodLog]) -> tuple[LogFile, ...]:
        """The records of return values, in the order of `sources`, copied now."""
        found = tuple(sources)
        self.copy(found)
        records = []
        for source in found:
            path = self._path(source.pod, _RETURNED)
            if path.exists():
                records.append(LogFile(source.instance, path))
            elif source.pod in self._missing:
                records.append(LogFile(source.instance, path, self._missing[source.pod]))
        return tuple(records)

    def copy(self, sources: Sequence[PodLog]) -> None:
        wanted = [source for source in sources if source.begun and not self._is_whole(source)]
        if wanted:
            with ThreadPoolExecutor(MAX_READS) as pool:
                list(pool.map(self._copy, wanted))

    def _copy(self, source: PodLog, follow: bool = False) -> None:
        try:
            self._read(source, follow)
        except ForbiddenError as error:
            self._missing[source.pod] = error.message
        except NotFoundError:
            self._missing[source.pod] = "its pod was deleted, and its log with it"
        except TfappError as error:
            self._missing[source.pod] = source.lost or error.message
        else:
            if source.lost and not source.over:
                self._missing[source.pod] = source.lost

    def _read(self, source: PodLog, follow: bool) -> None:
        window = _Window(self._position(source.pod) or LogPosition(source.instance))
        since = window.start.since
        for piece in self._cluster.log(source.pod, names.CONTAINER, since, follow):
            self._missing.pop(source.pod, None)
            if piece and not piece[-1].endswith(b"\n"):
                *piece, last = piece
                if instant(_time_of(last)) is None:  # the kubelet's own words
                    self._append(source, window, piece)
                    raise UnavailableError(last.decode(errors="replace"))
                if source.over:  # else it goes on
                    piece.append(last)
            self._append(source, window, piece)
            if follow and self._clock() - self._asked > IDLE_LIMIT:
                return
        if source.over and not follow:
            self._append(source, window, [], whole=True)

    def _append(
        self, source: PodLog, window: _Window, piece: list[bytes], whole: bool = False
    ) -> None:
        """Appends the new lines of `piece` but for those that another command has appended."""
        lines = list(window.new(piece))
        if not lines and not whole:
            return
        with writing(self._folder):
            make_private(self._folder)
            with locked(self._folder / ".lock", LOCK_LIMIT) as held:
                if not held:
                    raise UnavailableError(f"another command writes to {self._folder}")
                there = self._position(source.pod) or LogPosition(source.instance)
                if there.gaps != window.gaps_before or there.number < window.number_before:
                    raise UnavailableError("another command copies it, and had another answer")
                if there.number <= window.number:
                    lines = [line for line in lines if line.number > there.number]
                    self._write(source, window, lines, there, whole)
                window.appended()

    def _write(
        self, source: PodLog, window: _Window, lines: list[LogLine], there: LogPosition, whole: bool
    ) -> None:
        pod = source.pod
        with contextlib.ExitStack() as stack:
            copy = stack.enter_context(opened(self._path(pod), there.size))
            times = TimesWriter(self._path(pod))
            of_master, times_of_master = copy, times
            if source.instance == COORDINATOR:
                path = self._path(pod, _OF_MASTER)
                of_master = stack.enter_context(opened(path, there.size_of_master))
                times_of_master = TimesWriter(path)
            for line in lines:
                if line.text.startswith(RETURNED):
                    self._keep_returned(pod, line.text[len(RETURNED) :])
                elif of_master is not copy and line.text.startswith(OF_MASTER):
                    times_of_master.note(of_master.tell(), line.at)
                    of_master.write(line.text[len(OF_MASTER) :])
                elif not line.text.startswith(BEGINNINGS[0]):
                    times.note(copy.tell(), line.at)
                    copy.write(line.text)
            ended = window.position(copy.tell(), whole)
            ended = dataclasses.replace(ended, size_of_master=of_master.tell())
        write_json(self._path(pod, _POSITION), ended)

    # -- following --
    def _follow(self, sources: Iterable[PodLog]) -> None:
        """Follows these logs, each by a thread of its own."""
        for source in sources:
            if source.pod not in self._followers and len(self._followers) < MAX_FOLLOWED:
                self._followers[source.pod] = threads.start_surely(
                    f"log {source.pod}", self._go_on, source.pod
                )

    def _go_on(self, pod: str) -> None:
        """Follows a log until it has ended, its pod is gone or nobody asks for it."""
        try:
            pause, longest = RETRY
            while (source := self._sources.get(pod)) and self._clock() - self._asked <= IDLE_LIMIT:
                before = self._position(pod)
                self._copy(source, follow=not source.over)
                if source.over:
                    return
                pause = min(2 * pause, longest) if self._position(pod) == before else RETRY[0]
                time.sleep(pause)
        finally:  # if the reason is a bug, the log is copied now and then
            self._followers.pop(pod, None)

    def _await_ends(self) -> None:
        """Waits until the last lines of followed logs that have ended are copied: as long as some
        come, and DRAIN_LIMIT after the last of them."""
        known: dict[str, LogPosition | None] = {}
        deadline = 0.0
        while copying := [pod for pod in list(self._followers) if self._is_ending(pod)]:
            positions = {pod: self._position(pod) for pod in copying}
            if positions != known:
                known, deadline = positions, time.monotonic() + DRAIN_LIMIT
            elif time.monotonic() > deadline:
                self._late.update(copying)
                return
            time.sleep(DRAIN_EVERY)

    def _is_ending(self, pod: str) -> bool:
        source = self._sources.get(pod)
        return (source is None or source.over) and pod not in self._late

    # -- files --
    def _keep_returned(self, pod: str, record: bytes) -> None:
        path = self._path(pod, _RETURNED)
        partial = path.with_suffix(".partial")
        partial.touch(0o600)
        partial.write_bytes(record)
        partial.rename(path)

    def _logs(self, source: PodLog) -> Iterator[LogFile]:
        path, missing = self._path(source.pod), self._missing.get(source.pod, "")
        if source.instance != COORDINATOR:
            if path.exists() or missing:
                yield LogFile(source.instance, path, missing)
            return
        for instance, file in ((COORDINATOR, path), (MASTER, self._path(source.pod, _OF_MASTER))):
            if missing or (file.exists() and file.stat().st_size):
                yield LogFile(instance, file, missing)

    def _is_whole(self, source: PodLog) -> bool:
        position = self._position(source.pod)
        return source.over and position is not None and position.whole

    def _position(self, pod: str) -> LogPosition | None:
        # One that cannot be read is copied anew.
        return read_if_whole(self._path(pod, _POSITION), LogPosition.from_dict)

    def _path(self, pod: str, suffix: str = ".log") -> Path:
        return self._folder / f"{pod}{suffix}"

    def kept(self, known: Iterable[str]) -> Iterator[PodLog]:
        """The sources of pods, other than `known`, whose logs were copied before they were
        deleted."""
        there = set(known)
        for path in self._folder.glob(f"*{_POSITION}"):
            pod = path.name[: -len(_POSITION)]
            position = None if pod in there else self._position(pod)
            if position is not None:
                yield PodLog(position.instance, pod, over=True, begun=False)


def growing(sources: Iterable[PodLog]) -> bool:
    """Whether the log of an instance may still grow."""
    return any(s.begun and not s.over and s.instance != COORDINATOR for s in sources)


@contextlib.contextmanager
def opened(path: Path, size: int) -> Iterator[BinaryIO]:
    """Opens a copy and truncates it to `size` bytes: the rest is from a command that was killed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with open(descriptor, "r+b") as copy:
        copy.truncate(size)
        copy.seek(size)
        yield copy


def sources(pods: Iterable[Mapping[str, Any]], job_order: Sequence[str]) -> Iterator[PodLog]:
    """The sources of the pods of a run."""
    instances = {names.instance_label(instance): instance for instance in job_order}
    for pod in pods:
        label = pod["metadata"].get("labels", {}).get(names.INSTANCE, "")
        yield PodLog(
            instances.get(label) or "/".join(label.rsplit("-", 1)) or COORDINATOR,
            pod["metadata"]["name"],
            verdict.is_over(pod),
            begun=_has_begun(pod),
            lost=verdict.silent_node(pod),
        )


def in_order(found: Iterable[PodLog], job_order: Sequence[str]) -> tuple[PodLog, ...]:
    return tuple(sorted(found, key=log_order(job_order, lambda source: source.pod)))


def _has_begun(pod: Mapping[str, Any]) -> bool:
    """Whether the main container has, or had, a log."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container["name"] == names.CONTAINER:
            state = container.get("state", {})
            return "waiting" not in state and bool(state)
    return False


class _Window:
    """Selects the new lines of one answer of the API, which begins at `start.since`.
    `gaps_before`, `number_before`: those of the copy when lines were last appended."""

    def __init__(self, start: LogPosition):
        self.start = start
        self.number = self.number_before = start.number
        self.gaps_before = self._gaps = start.gaps
        self._seen = 0
        self._rotated = False
        self._last, self._copied = start.last, instant(start.last) or 0
        self._last_at = self._copied
        # By second: [lines, number of the first, its time]; of the newest seconds alone.
        self._seconds: dict[int, list[Any]] = {}

    def new(self, piece: Iterable[bytes]) -> Iterator[LogLine]:
        """The new lines among the next ones. Before the first of them comes a line of tfapp's if
        others may be missing."""
        for line in piece:
            time_of, text = _time_of(line), line.partition(b" ")[2]
            at = instant(time_of)
            if at is None:  # no line as nodes have them: it belongs to the one before
                time_of, at, text = self._last, self._last_at, line
            missing = "" if self._seen else self._missing(time_of, at, text)
            if missing:
                self._gaps += 1
                self.number += 1
                told = f"{OWN_LINE}lines {missing} may be missing: the node had deleted them\n"
                yield LogLine(self.number, at / 1e9, told.encode())
            if self._is_new(time_of, at):
                self.number += 1
                yield LogLine(self.number, at / 1e9, text)

    def _missing(self, time_of: str, at: int, text: bytes) -> str:
        """The lines that may be missing before the first one of the answer."""
        start = self.start
        if not start.count:
            begins = start.instance == COORDINATOR or text.startswith(BEGINNINGS)
            return "" if begins else f"before {time_of}"
        self._rotated = time_of != start.first  # the node has deleted older lines
        return f"between {start.last} and {time_of}" if at > self._last_at else ""

    def _is_new(self, time_of: str, at: int) -> bool:
        known = self._seconds.setdefault(at // 10**9, [0, self._seen, time_of])
        known[0] += 1
        if len(self._seconds) > 2 * _SECONDS:
            for old in sorted(self._seconds)[:-_SECONDS]:
                del self._seconds[old]
        self._seen += 1
        if at > self._last_at:
            self._last, self._last_at = time_of, at
        return at > self._copied if self._rotated else self._seen > self.start.count

    def appended(self) -> None:
        """To be called when the lines so far are in the copy."""
        self.number_before, self.gaps_before = self.number, self._gaps

    def position(self, size: int, whole: bool) -> LogPosition:
        start = self.start
        found = dataclasses.replace(
            start, size=size, whole=whole, number=self.number, gaps=self._gaps, last=self._last
        )
        if not self._seconds:
            return found
        newest = max(self._seconds) - 1  # lines of two streams may change places
        if newest <= min(self._seconds) and not self._rotated:
            first = start.first or min(self._seconds.values(), key=lambda s: s[1])[2]
            return dataclasses.replace(found, count=self._seen, first=first)
        kept = [value for second, value in self._seconds.items() if second >= newest]
        return dataclasses.replace(
            found,
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest)),
            count=sum(value[0] for value in kept),
            first=min(kept, key=lambda value: value[1])[2],
        )


def _time_of(line: bytes) -> str:
    return line[:40].partition(b" ")[0].decode("ascii", "replace")


def instant(text: str) -> int | None:
    """Nanoseconds since 1970 of 2026-11-23T05:18:50.123456789Z (or +01:00); None for other text."""
    match = _TIME.match(text)
    if match is None:
        return None
    whole, fraction, zone = match.groups()
    return _second(whole, zone) * 10**9 + int((fraction or "")[:9].ljust(9, "0"))


@functools.lru_cache(64)
def _second(whole: str, zone: str) -> int:
    return int(datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).timestamp())
