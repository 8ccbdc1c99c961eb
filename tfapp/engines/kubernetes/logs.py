"""Copies the logs of a run's pods to files under TFAPP_HOME. The API returns lines from a time on,
in order: a copy stores the number of its lines since that time, and continues after them."""

from __future__ import annotations

import calendar
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tfapp.contract.log_times import TimesWriter
from tfapp.contract.names import OWN_LINE, RETURNED_LINE
from tfapp.disk import locked, make_private, read_json, write_json, writing
from tfapp.engines.base import LogFile
from tfapp.engines.kubernetes import names, verdict
from tfapp.errors import ForbiddenError, NotFoundError, TfappError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.engines.kubernetes.api import Cluster

COORDINATOR = "coordinator"
MASTER = "master"
# What begins a line of the log of the master's pod that is the master's own; others are the
# coordinator's.
OF_MASTER = f"{OWN_LINE}master: ".encode()
RETURNED = RETURNED_LINE.encode()  # then a record: see tfapp.program.returned
COPY_EVERY = 1.0  # seconds between two looks at logs that grow
LOCK_LIMIT = 5.0  # seconds for another command that copies the same logs
MAX_READS = 8  # logs that are read at the same time

_POSITION = ".position.json"
_SECONDS = 8  # of the newest lines, that are remembered one by one


@frozen
class Position:
    """The progress of a copy. `size`: its bytes. `since`: a whole second, "" for the beginning.
    `count`: the number of its lines since then. `first`: the time of the first of these lines.
    `last`: the time of the last line. Times are as in the log."""

    instance: str
    size: int = 0
    size_of_master: int = 0  # of the copy of the master's own lines
    since: str = ""
    count: int = 0
    first: str = ""
    last: str = ""
    whole: bool = False  # nothing more comes


@frozen
class Source:
    """The log of a pod's main container. `over`: it has ended. `lost`: why it is not available."""

    instance: str
    pod: str
    over: bool
    begun: bool = True
    lost: str = ""


class Logs:
    """The logs of one run, copied to `folder`. `clock`: seconds from any start."""

    def __init__(self, cluster: Cluster, folder: Path, clock: Callable[[], float] = time.monotonic):
        self._cluster = cluster
        self._folder = folder
        self._clock = clock
        self._missing: dict[str, str] = {}  # pod -> why its log cannot be had now
        self._next = 0.0

    def files(self, sources: Iterable[Source]) -> tuple[LogFile, ...]:
        """The copies, in the order of `sources`. Shortly after another call nothing is copied."""
        found = tuple(sources)
        began = self._clock()
        if began >= self._next:
            self.copy(found)
            ended = self._clock()
            self._next = ended + max(COPY_EVERY, 2 * (ended - began))
        return tuple(log for source in found for log in self._logs(source))

    def returned(self, sources: Iterable[Source]) -> tuple[LogFile, ...]:
        """The records of return values, in the order of `sources`, copied now."""
        found = tuple(sources)
        self.copy(found)
        records = []
        for source in found:
            path = self._returned_path(source.pod)
            if path.exists():
                records.append(LogFile(source.instance, path))
            elif source.pod in self._missing:
                records.append(LogFile(source.instance, path, self._missing[source.pod]))
        return tuple(records)

    def copy(self, sources: Sequence[Source]) -> None:
        """Copies new lines. Does nothing while another command copies these logs."""
        wanted = [source for source in sources if source.begun and not self._is_whole(source)]
        if not wanted:
            return
        with writing(self._folder):
            make_private(self._folder)
            lock = locked(self._folder / ".lock", LOCK_LIMIT)
            with lock as held:
                if held:
                    with ThreadPoolExecutor(MAX_READS) as pool:
                        list(pool.map(self._copy, wanted))

    def _copy(self, source: Source) -> None:
        position = self._position(source.pod) or Position(source.instance)
        try:
            lines = self._cluster.log(source.pod, names.CONTAINER, since=position.since)
            with contextlib.ExitStack() as stack:
                copy = stack.enter_context(opened(self._path(source.pod), position.size))
                of_master = copy
                if source.instance == COORDINATOR:
                    path = self._path_of_master(source.pod)
                    of_master = stack.enter_context(opened(path, position.size_of_master))
                ended = self._append(copy, of_master, source, position, lines)
            write_json(self._position_path(source.pod), ended)
            self._missing.pop(source.pod, None)
        except ForbiddenError as error:
            self._missing[source.pod] = error.message
        except NotFoundError:
            self._missing[source.pod] = "its pod was deleted, and its log with it"
        except TfappError as error:
            self._missing[source.pod] = source.lost or error.message
        else:
            if source.lost and not source.over:
                self._missing[source.pod] = source.lost

    def _append(
        self,
        copy: BinaryIO,
        of_master: BinaryIO,
        source: Source,
        position: Position,
        lines: Iterable[bytes],
    ) -> Position:
        window = _Window(position)
        times = TimesWriter(self._path(source.pod))
        times_of_master = TimesWriter(self._path_of_master(source.pod))
        for line in lines:
            if not line.endswith(b"\n") and not source.over:
                break  # it goes on
            at, _, text = line.partition(b" ")
            moment = at.decode(errors="replace")
            if not window.is_new(moment):
                continue
            if text.startswith(RETURNED):
                self._keep_returned(source.pod, text[len(RETURNED) :])
            elif of_master is not copy and text.startswith(OF_MASTER):
                times_of_master.note(of_master.tell(), _seconds(moment))
                of_master.write(text[len(OF_MASTER) :])
            else:
                times.note(copy.tell(), _seconds(moment))
                copy.write(text)
        ended = window.position(copy.tell(), source.over)
        return dataclasses.replace(ended, size_of_master=of_master.tell())

    def _keep_returned(self, pod: str, record: bytes) -> None:
        path = self._returned_path(pod)
        partial = path.with_suffix(".partial")
        partial.touch(0o600)
        partial.write_bytes(record)
        partial.rename(path)

    def _logs(self, source: Source) -> Iterator[LogFile]:
        path, missing = self._path(source.pod), self._missing.get(source.pod, "")
        if source.instance != COORDINATOR:
            if path.exists() or missing:
                yield LogFile(source.instance, path, missing)
            return
        for instance, file in ((COORDINATOR, path), (MASTER, self._path_of_master(source.pod))):
            if missing or (file.exists() and file.stat().st_size):
                yield LogFile(instance, file, missing)

    def _is_whole(self, source: Source) -> bool:
        position = self._position(source.pod)
        return source.over and position is not None and position.whole

    def _position(self, pod: str) -> Position | None:
        try:
            data = read_json(self._position_path(pod))
            return None if data is None else Position(**data)
        except (ValueError, TypeError):
            return None  # it is copied anew

    def _path(self, pod: str) -> Path:
        return self._folder / f"{pod}.log"

    def _path_of_master(self, pod: str) -> Path:
        return self._folder / f"{pod}.master.log"

    def _position_path(self, pod: str) -> Path:
        return self._folder / f"{pod}{_POSITION}"

    def _returned_path(self, pod: str) -> Path:
        return self._folder / f"{pod}.returned.json"

    def kept(self, known: Iterable[str]) -> Iterator[Source]:
        """The sources of pods, other than `known`, whose logs were copied before they were
        deleted."""
        there = set(known)
        for path in self._folder.glob(f"*{_POSITION}"):
            pod = path.name[: -len(_POSITION)]
            position = None if pod in there else self._position(pod)
            if position is not None:
                yield Source(position.instance, pod, over=True, begun=False)


@contextlib.contextmanager
def opened(path: Path, size: int) -> Iterator[BinaryIO]:
    """Opens a copy and truncates it to `size` bytes: the rest is from a command that was killed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with open(descriptor, "r+b") as copy:
        copy.truncate(size)
        copy.seek(size)
        yield copy


def sources(pods: Iterable[Mapping[str, Any]], job_order: Sequence[str]) -> Iterator[Source]:
    """The sources of the pods of a run."""
    instances = {names.instance_label(instance): instance for instance in job_order}
    for pod in pods:
        label = pod["metadata"].get("labels", {}).get(names.INSTANCE, "")
        yield Source(
            instances.get(label) or "/".join(label.rsplit("-", 1)) or COORDINATOR,
            pod["metadata"]["name"],
            verdict.is_over(pod),
            begun=_has_begun(pod),
            lost=verdict.silent_node(pod),
        )


def in_order(found: Iterable[Source], job_order: Sequence[str]) -> tuple[Source, ...]:
    """The sources in order: instances first, in `job_order`, older pods of an instance before newer
    ones; then the coordinator."""
    order = {instance: place for place, instance in enumerate(job_order)}
    return tuple(sorted(found, key=lambda source: _place(source, order)))


def _place(source: Source, order: Mapping[str, int]) -> tuple[int, str, int]:
    component, slash, index = source.instance.rpartition("/")
    place = order.get(source.instance, len(order) + (0 if slash else 1))
    number = source.pod.rpartition("-")[2]
    name = f"{component}/{index.zfill(9)}" if slash else source.instance
    return place, name, int(number) if number.isdigit() else 0


def _has_begun(pod: Mapping[str, Any]) -> bool:
    """Whether the main container has, or had, a log."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container["name"] == names.CONTAINER:
            state = container.get("state", {})
            return "waiting" not in state and bool(state)
    return False


class _Window:
    """Selects new lines among those that the API returns from `position.since` on."""

    def __init__(self, position: Position):
        self._start = position
        self._seen = 0
        self._rotated = False
        self._last = position.last
        # By second: (lines, number of the first, its time); of the newest seconds alone.
        self._seconds: dict[float, tuple[int, int, str]] = {}

    def is_new(self, at: str) -> bool:
        """Whether the next line, written at `at`, is new."""
        start = self._start
        if self._seen == 0 and start.count and at != start.first:
            self._rotated = True  # the node has deleted older lines
        second = _instant(at)[0]
        count, number, first = self._seconds.get(second, (0, self._seen, at))
        self._seconds[second] = (count + 1, number, first)
        if len(self._seconds) > 2 * _SECONDS:
            for old in sorted(self._seconds)[:-_SECONDS]:
                del self._seconds[old]
        self._seen += 1
        later = _instant(at) > _instant(start.last)
        new = later if self._rotated else self._seen > start.count
        if not self._last or _instant(at) > _instant(self._last):
            self._last = at
        return new

    def position(self, size: int, whole: bool) -> Position:
        """The position after the last line."""
        start = self._start
        if not self._seconds:
            return dataclasses.replace(start, size=size, whole=whole)
        newest = max(self._seconds) - 1  # lines of two streams may change places
        if newest <= min(self._seconds) and not self._rotated:
            first = start.first or min(self._seconds.values(), key=lambda s: s[1])[2]
            since, count = start.since, self._seen
        else:
            kept = [value for second, value in self._seconds.items() if second >= newest]
            first = min(kept, key=lambda value: value[1])[2]
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest))
            count = sum(value[0] for value in kept)
        return dataclasses.replace(
            start, size=size, since=since, count=count, first=first, last=self._last, whole=whole
        )


def _seconds(text: str) -> float:
    """Seconds since 1970; see `_instant`."""
    seconds, fraction = _instant(text)
    return seconds + float(f"0.{fraction}")


def _instant(text: str) -> tuple[float, str]:
    """Parses 2026-11-23T05:18:50.123456789Z (or +01:00) into (seconds since 1970, fraction)."""
    try:
        whole, rest = text[:19], text[19:]
        seconds: float = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0, ""
    fraction = rest.rstrip("Z")
    for sign, factor in (("+", -1), ("-", 1)):
        if sign in fraction:
            fraction, _, zone = fraction.partition(sign)
            hours, _, minutes = zone.partition(":")
            seconds += factor * (int(hours) * 3600 + int(minutes or 0) * 60)
    return seconds, fraction.lstrip(".").ljust(9, "0")
