"""The base of all engines: applications are found, listed, followed and stopped by what an engine
records of their runs. An engine adds where records lie, how a run is seen to have ended, and how
changes are heard."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfapp.contract.status import ApplicationStatus
from tfapp.engines import refusals
from tfapp.engines.base import DAMAGED, Application
from tfapp.engines.client import Run
from tfapp.engines.refusals import DamagedError
from tfapp.errors import ForbiddenError, SilentError, UnavailableError, UnreachableError

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.package.model import AppPackage
    from tfapp.protocol.connection import Connection

OUTAGE_EVERY = 1.0  # seconds between two questions to a cluster that does not answer


Place = TypeVar("Place")  # where the record of a run is
R = TypeVar("R", bound=Run)


class BaseEngine(Generic[Place, R]):
    """See tfapp.engines.base.Engine. Derived engines define the attributes and the first three
    methods below, and whatever else differs."""

    name = ""
    sees_home = False
    run_modes = frozenset({"local"})
    stays = False
    looks = 16  # applications that are looked at at the same time
    outage = 0.0  # seconds in which the cluster of a followed application may not answer

    # -- records, for engines to give --
    def _runs_of(self, name: str) -> Mapping[int, Place]:
        """The runs of an application by number, oldest first. UnknownApplicationError."""
        raise NotImplementedError

    def _newest(self) -> Iterable[tuple[str, int, Place]]:
        """The newest run of each application: its name and number, and where it is."""
        raise NotImplementedError

    def _open(self, place: Place, number: int) -> R:
        """The run `number` in `place`. DamagedError."""
        raise NotImplementedError

    def _changed(self, place: Place) -> float:
        """When a record was changed that cannot be read, in seconds since 1970; 0 if unknown."""
        return 0.0

    def _age(self, application: Application) -> Any:
        """What `list` sorts by."""
        return application.status.started, application.id

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        return options

    def rendered(self, compiled: Compiled) -> str:
        from tfapp.compiler.render import render_spec

        return render_spec(compiled.spec)

    def ship(self, compiled: Compiled) -> None:
        from tfapp.compiler.store import store_files

        store_files(compiled.files)

    def checkpoint_home(self) -> str:
        return ""

    def closed(self, url: str) -> str:
        return ""

    # -- looking --
    @property
    def reaches_pages(self) -> bool:
        return True

    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. UnreachableError if the master lives but does not answer."""
        return self._look(self._run(name, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list. An application whose master does not answer is listed with its first
        status. All masters are asked in parallel, because each that does not answer takes seconds.
        """
        with ThreadPoolExecutor(self.looks) as pool:
            found = pool.map(lambda newest: self._listed(*newest), self._newest())
        return tuple(sorted(found, key=self._age, reverse=True))

    def _listed(self, name: str, number: int, place: Place) -> Application:
        try:
            run = self._open(place, number)
            run.fetches = False
            try:
                return self._look(run)
            except UnreachableError:
                return run.application()
        except DamagedError as error:
            changed = self._changed(place)
            status = ApplicationStatus(name, DAMAGED, None, changed, changed, ())
            return Application(name, self.name, "", number, False, status, waits=error.message)

    def _look(self, run: R) -> Application:
        run.look()
        return run.application()

    def _run(self, name: str, number: int | None = None) -> R:
        """A run of an application, by default the newest. NotFoundError for an unknown number."""
        runs = self._runs_of(name)
        if number is None:
            number = max(runs)
        if number not in runs:
            raise refusals.no_such_run(name, number, runs)
        return self._open(runs[number], number)

    def follow(
        self, name: str, run: int | None = None, left: Callable[[], bool] = lambda: False
    ) -> Iterator[Application]:
        """See Engine.follow. If the cluster does not answer, it says so once and asks again, for
        `outage` seconds."""
        followed = self._run(name, run)
        followed.left = left
        last: Application | None = None
        known, give_up, told = True, 0.0, False
        while True:
            if left():
                return
            try:
                if not known:
                    followed.read()
                known = False
                if followed.settle():
                    break
                for application in self._changes(followed):
                    told = False
                    if application != last:
                        last = application
                        yield application
            except UnavailableError as error:
                give_up = give_up if told else time.monotonic() + self.outage
                if isinstance(error, ForbiddenError) or time.monotonic() >= give_up:
                    raise
                if not told:
                    told = True
                    waits = f"{error.message}; tfapp goes on asking"
                    yield dataclasses.replace(followed.application(), waits=waits)
                time.sleep(OUTAGE_EVERY)
        yield followed.application()

    def _changes(self, run: R) -> Iterator[Application]:
        return run.changes()

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext(address)

    def connect(self, name: str) -> Connection:
        run = self._run(name)
        if run.settle():
            raise refusals.not_running(name)
        try:
            return run.client.connect_surely()
        except SilentError:
            if run.settle():  # meanwhile
                raise refusals.not_running(name) from None
            raise

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. An application whose master does not answer is ended without it."""
        run = self._run(name)
        if run.settle():
            run.clear()
        else:
            run.stop(message, force, timeout)
        return self._look(run)
