"""The pages of the applications that engines know: followed as long as somebody looks, and as they
are at one moment, to be kept."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from tfapp import threads
from tfapp.contract.history import PastRun
from tfapp.contract.names import FAILED, LOST, STACKS_PREFIX
from tfapp.contract.status import ApplicationStatus
from tfapp.engines import control
from tfapp.engines.base import Application, Engine, LogFile
from tfapp.errors import NotFoundError, TfappError, UnknownApplicationError
from tfapp.launch.history import History, about_past
from tfapp.launch.logs import last_lines_at, primary_instance
from tfapp.page import document, registry, server, stacks
from tfapp.page.document import MAX_LINES, About, PageAddress, PageLog
from tfapp.page.server import PageAnswer, PageRequest

FIRST_WORD = 10.0  # seconds for an engine's first word of an application
UNSEEN = 60.0  # seconds without anybody who looks, after which an application is not followed
AGAIN = 5.0  # seconds after which an application that has ended is looked at again
LIST_EVERY = 3.0  # seconds between two lists of applications at least
LOGS_EVERY = 2.0  # seconds between two lists of logs at least
REST = 50.0  # between two of them: so many times what one took

MAX_LOG = 64 * 1024  # bytes of a log that are shown
MAX_SEARCHED = 32 << 20  # bytes of all logs together that are searched
MAX_KEPT_LOGS = 24  # logs in a page that is kept
MAX_KEPT_LOG = 32 * 1024  # bytes of each
MOST_PAST = 5000  # runs of a history that are listed
MAX_EARLIER = 10  # earlier runs to which a page has links
_EARLIER = re.compile(r"runs/(?P<run>\d{1,9})/(data\.json)?")

_T = TypeVar("_T")


class Pages:
    """Answers for the applications of `engines`. `clock` is monotonic, `calendar` gives seconds
    since 1970."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ):
        self._engines, self._clock, self._calendar = engines, clock, calendar
        self._lock = threading.Lock()
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._list: Seldom[dict[str, Any]] = Seldom(self._listed, LIST_EVERY, clock)

    def answer(self, request: PageRequest) -> PageAnswer:
        """The list of applications at "", an application at its engine's name and its own, and
        below that its earlier runs at `runs/N/`, and what Slider's registry served. `data.json`
        beside a page: its document."""
        if request.path in ("", "data.json"):
            return server.shown(self._list.value(), request, self._calendar())
        engine, _, rest = request.path.partition("/")
        name, slash, below = rest.partition("/")
        if engine not in self._engines or not name:
            return server.NOT_FOUND
        try:
            if not slash:  # first: the page of an error asks again at what is beside it
                return server.moved(f"{name}/")
            return self._below(engine, name, below, request)
        except UnknownApplicationError:
            return server.NOT_FOUND
        except TfappError as error:
            return server.failed(503, error.message)

    def _below(self, engine: str, name: str, below: str, request: PageRequest) -> PageAnswer:
        if found := _EARLIER.fullmatch(below):
            run = int(found["run"])
            ways = [("All applications", "../../../../"), ("Newest run", "../../")]
            shown = kept(self._engines[engine], name, run, ways)
            return server.shown(shown, request, self._calendar())
        watch = self._watch(engine, name)
        application = watch.newest(FIRST_WORD)
        if below in ("", "data.json", server.EVENTS):
            instance = request.query.get("log", "") or _first(application.status)
            direct = self._engines[engine].reaches_pages
            earlier = range(max(1, application.run - MAX_EARLIER), application.run)
            ways = [("All applications", "../../"), *((f"Run {n}", f"runs/{n}/") for n in earlier)]
            logs = watch.logs(application, instance)
            can = (server.EVENTS, document.ALL_LOGS, stacks.LAST, stacks.NOW, stacks.TRACES)
            shown = _document(application, logs, direct, ways=ways, can=can)
            return server.shown(shown, request, self._calendar())
        if below == document.SEARCH:
            instance, words = request.query.get("log", ""), request.query.get("find", "")
            return server.data(watch.search(application, instance, words))
        if below == stacks.PATH:
            return server.data(watch.stacks(application, request.post))
        if below == stacks.PROFILE and request.post:
            return server.data(watch.profile())
        address = f"{request.base}{engine}/{name}"
        return server.data(registry.published(below, application.status, address))

    def _watch(self, engine: str, name: str) -> _Watch:
        with self._lock:
            for key, watch in list(self._watches.items()):
                if watch.is_stale():
                    del self._watches[key]
            found = self._watches.get((engine, name))
            if found is None:
                found = _Watch(self._engines[engine], name, self._clock)
                self._watches[engine, name] = found
            found.asked()
            return found

    def _listed(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        notes: list[str] = []
        for name, engine in self._engines.items():
            try:
                found = engine.list()
            except TfappError as error:
                notes.append(f"{name}: {error.message}")
                continue
            rows += [document.row(_about(one), one.status) for one in found]
        rows.sort(key=lambda row: (row["live"], row["started"] or 0.0), reverse=True)
        return document.of_list(rows, notes)


class _Watch:
    """One application, followed in a thread of its own as long as somebody asks."""

    def __init__(self, engine: Engine, name: str, clock: Callable[[], float]):
        self._engine, self._name, self._clock = engine, name, clock
        self._changed = threading.Condition()
        self._newest: Application | None = None
        self._error: TfappError | None = None
        self._over: float | None = None  # since when there is nothing more to follow
        self._asked = clock()
        self._logs: Seldom[tuple[LogFile, ...]] | None = None
        self._searching, self._taking = threading.Lock(), threading.Lock()
        self._run = 0
        threads.start_surely(f"page-{name}", self._follow)

    def asked(self) -> None:
        self._asked = self._clock()

    def _unseen(self) -> bool:
        return self._clock() >= self._asked + UNSEEN

    def is_stale(self) -> bool:
        """Whether it is to be looked at anew."""
        return self._over is not None and self._clock() >= self._over + AGAIN

    def newest(self, timeout: float) -> Application:
        """As it is known now; the first time after a wait of `timeout` seconds at most. TfappError
        when it cannot be known."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest or self._over is not None, timeout)
            if self._newest is not None:
                return self._newest
            raise self._error or TfappError(f"there is no word of {self._name} yet")

    def logs(self, application: Application, instance: str) -> tuple[PageLog, ...]:
        """The last lines of the instance's log, if it has one."""
        if not instance:
            return ()
        try:
            return (_log(self._files(application), instance, MAX_LOG),)
        except TfappError as error:
            return (PageLog(instance, "", error.message),)

    def search(self, application: Application, instance: str, words: str) -> dict[str, Any]:
        """The lines with `words` in the log of an instance, or, with "", in the logs of all. One
        search at a time."""
        files = self._files(application)
        whose = [instance] if instance else [i.instance for i in application.status.instances]
        with self._searching:
            return document.found(_ends(files, whose), words)

    def stacks(self, application: Application, now: bool) -> dict[str, Any]:
        """The stacks that were taken last, or those of `now`. One request at a time."""
        with self._taking:
            if now:
                return stacks.shown(control.stacks(self._engine, self._name))
            with self._engine.connect(self._name) as connection:
                told = connection.values(STACKS_PREFIX)
            return stacks.shown(stacks.last_taken(told, application.status))

    def profile(self) -> dict[str, Any]:
        """Lets all programs trace themselves for a few seconds. One request at a time."""
        with self._taking:
            return {"lines": list(control.profile(self._engine, self._name).lines(self._name))}

    def _files(self, application: Application) -> tuple[LogFile, ...]:
        with self._changed:
            if self._logs is None or self._run != application.run:
                self._run = application.run
                self._logs = Seldom(
                    lambda: self._engine.logs(self._name, application.run), LOGS_EVERY, self._clock
                )
            listed = self._logs
        return listed.value()

    def _follow(self) -> None:
        try:
            for application in self._engine.follow(self._name, None, self._unseen):
                with self._changed:
                    self._newest = application
                    self._changed.notify_all()
                if self._unseen():
                    break
        except TfappError as error:
            self._error = error
        finally:
            with self._changed:
                self._over = self._clock()
                self._changed.notify_all()


class Seldom(Generic[_T]):
    """A value that is made anew when it is asked for, but not more often than each `every` seconds,
    and less often where making it takes long."""

    def __init__(self, make: Callable[[], _T], every: float, clock: Callable[[], float]):
        self._make, self._every, self._clock = make, every, clock
        self._lock = threading.Lock()
        self._made: tuple[_T, float] | None = None  # and until when it stands

    def value(self) -> _T:
        """The newest, or what `make` raises."""
        with self._lock:
            begin = self._clock()
            if self._made is None or begin >= self._made[1]:
                value = self._make()
                end = self._clock()
                self._made = value, end + max(self._every, REST * (end - begin))
            return self._made[0]


class HistoryPages:
    """Answers for the runs of a history: the list at "", a run at its folder's name and "/".
    `clock` is monotonic."""

    def __init__(self, history: History, clock: Callable[[], float] = time.monotonic):
        self._history = history
        self._list = Seldom(history.runs, AGAIN, clock)

    def answer(self, request: PageRequest) -> PageAnswer:
        try:
            if request.path in ("", "data.json"):
                return server.shown(self._listed(), request, time.time())
            folder, slash, below = request.path.partition("/")
            run = PastRun.of(folder)
            if run is None or below not in ("", "data.json"):
                return server.NOT_FOUND
            if not slash:
                return server.moved(f"{folder}/")
            shown = self._history.document(run, [("All runs", "../")])
            return server.shown(shown, request, time.time())
        except NotFoundError:
            return server.NOT_FOUND
        except TfappError as error:
            return server.failed(503, error.message)

    def _listed(self) -> dict[str, Any]:
        runs = self._list.value()
        notes = []
        if len(runs) > MOST_PAST:
            notes = [f"The newest {MOST_PAST:,} of {len(runs):,} runs; `tfapp history` lists all."]
        shown = document.of_list([_row(run) for run in runs[:MOST_PAST]], notes)
        return {**shown, "name": "Runs that have ended"}


def _row(run: PastRun) -> dict[str, Any]:
    about = about_past(run)
    ended = dataclasses.replace(
        _NOTHING, name=run.name, state=run.state, started=run.started, updated=run.ended
    )
    words = f"Run {run.id} of {run.user}."
    return {**document.row(about, ended), "words": words, "href": f"{run.folder}/"}


_NOTHING = ApplicationStatus("", "", None, 0.0, 0.0, ())


def kept(
    engine: Engine, name: str, run: int | None = None, ways: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """The document of an application as it is now, with the last lines of the logs of a few of its
    instances: those that failed first. To be kept: it asks for no newer one. `ways`: see About."""
    application = engine.find(name, run)
    status = application.status
    first = _first(status)
    order = sorted(
        status.instances, key=lambda i: (i.instance != first, i.state not in (FAILED, LOST))
    )
    wanted = {instance.instance for instance in order[:MAX_KEPT_LOGS]}
    logs: list[PageLog] = []
    with contextlib.suppress(TfappError):
        files = engine.logs(name, application.run)
        names = [i.instance for i in order if i.instance in wanted]
        there = {file.instance for file in files}
        logs = [_log(files, instance, MAX_KEPT_LOG) for instance in names if instance in there]
    return _document(application, logs, engine.reaches_pages, fixed=True, ways=ways)


def _document(
    application: Application,
    logs: Any,
    direct: bool,
    fixed: bool = False,
    ways: Sequence[tuple[str, str]] = (),
    can: Sequence[str] = (),
) -> dict[str, Any]:
    links = [PageAddress(one.what, one.instance, one.address) for one in application.links]
    about = dataclasses.replace(_about(application, direct), ways=ways, can=can)
    return document.of_application(about, application.status, links, logs, fixed=fixed)


def _about(application: Application, direct: bool = True) -> About:
    return About(
        application.name,
        application.engine,
        application.id,
        application.run,
        application.live,
        application.tags,
        application.waits,
        direct,
    )


def _first(status: ApplicationStatus) -> str:
    primary = primary_instance(status)
    return primary.instance if primary else ""


def _log(files: tuple[LogFile, ...], instance: str, most: int) -> PageLog:
    """The end of the logs of an instance: it has one for each of its containers."""
    data, missing = b"", ""
    for file in files:
        if file.instance == instance:
            data = (data + _end(file.path, most))[-most:]
            missing = file.missing
    return PageLog(instance, document.last_lines(data), missing)


def _ends(files: Sequence[LogFile], whose: Sequence[str]) -> Iterator[tuple[str, bytes, int]]:
    """As `document.found` takes them: MAX_SEARCHED bytes of all together."""
    left = MAX_SEARCHED
    for instance in whose:
        data, size = b"", 0
        for file in files:
            if file.instance != instance:
                continue
            with contextlib.suppress(OSError), file.path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(end - min(left, document.MAX_SEARCHED), 0))
                data, size = data + log.read(min(left, document.MAX_SEARCHED)), size + end
        data = data[-document.MAX_SEARCHED :]
        left -= len(data)
        yield instance, data, size


def _end(path: Path, most: int) -> bytes:
    """The last lines of a file, of which `most` bytes."""
    try:
        with path.open("rb") as file:
            begin = max(last_lines_at(file, MAX_LINES), file.seek(0, os.SEEK_END) - most)
            file.seek(begin)
            return file.read(most)
    except OSError:
        return b""
