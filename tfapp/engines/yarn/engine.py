"""Runs applications on a YARN cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import getpass
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.store import CACHE, keeping_files, store_files
from tfapp.engines import refusals
from tfapp.engines.base import Application, Checkpoints, LogFile
from tfapp.engines.client import no_answer
from tfapp.engines.definition import Definition
from tfapp.engines.diagnosis import PROBLEM, Finding
from tfapp.engines.known import BaseEngine
from tfapp.engines.yarn import doctor, node_check, nodes, zones
from tfapp.engines.yarn.checkpoints import checkpoints_of
from tfapp.engines.yarn.cluster import YarnCluster, YarnReport
from tfapp.engines.yarn.configuration import (
    application_class_path,
    container_grace,
    read_configuration,
)
from tfapp.engines.yarn.kerberos import find_user
from tfapp.engines.yarn.layout import YarnHome
from tfapp.engines.yarn.logs import YarnLogs
from tfapp.engines.yarn.preflight import Capacity
from tfapp.engines.yarn.register import YarnRegister
from tfapp.engines.yarn.run import YarnRun
from tfapp.engines.yarn.shared_folder import SharedFolder
from tfapp.engines.yarn.submission import YarnSubmission, bundled
from tfapp.engines.yarn.user_names import name_of
from tfapp.engines.yarn.web import Web
from tfapp.errors import (
    BadStateError,
    ForbiddenError,
    InvalidPackageError,
    UnavailableError,
    UnreachableError,
)

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.package.model import AppPackage
    from tfapp.problems import Problem
    from tfapp.protocol.connection import Connection

SETTLE = 6.0  # seconds: a master hears of a lost container within 5


class YarnEngine(BaseEngine[YarnReport, YarnRun]):
    """Runs applications on the cluster that `environ` selects; see BaseEngine. `user`: their owner,
    by default the caller."""

    name = "yarn"
    run_modes = frozenset({"local", "docker", "yarn-docker"})
    outage = 900.0  # YARN's yarn.resourcemanager.connect.max-wait.ms as it comes

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        user: str | None = None,
    ):
        self._home = YarnHome(home.absolute() / "yarn")
        self._environ = dict(environ)
        self._clock = clock
        names = functools.partial(name_of, self._home, self._environ)
        self._user = user or find_user(self._environ, getpass.getuser(), names)
        self._cluster = YarnCluster(self._home, self._environ, clock)
        self._shared = SharedFolder(self._home, self._environ, self._user, clock)
        self._register = YarnRegister(self._home, self._cluster, self._shared, self._user, clock)
        self._submission = YarnSubmission(
            self._cluster, self._shared, self._register, self._user, clock
        )
        why_closed = functools.partial(zones.why_closed, self._environ)
        self._closed = functools.lru_cache(64)(why_closed)
        self._web = Web(self._environ)
        self._capacity = Capacity(self._cluster, self._environ, self._web)
        connect = functools.partial(_connect, weakref.ref(self))
        self._logs = YarnLogs(self._home, self._cluster, self._environ, self._web, connect)
        weakref.finalize(self, self._logs.end)
        # The run of a name and a number, which is asked for many times while logs grow.
        self._looked_at: dict[tuple[str, int | None], str] = {}
        self._found: Application | None = None  # the last one

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """See Engine.examine. It starts a small container on each node."""
        well = True
        home = self._home.path.parent
        for finding in doctor.examine(
            home, self._environ, self._cluster, self._web, self._shared, self._clock
        ):
            well &= finding.level != PROBLEM
            yield finding
        if python is not None and well:
            yield from node_check.examine_nodes(
                self._cluster,
                self._web,
                self._cluster.nodes(),
                python,
                (options or {}).get("queue", "default"),
                self._clock(),
            )

    def checkpoint_home(self) -> str:
        return self._shared.checkpoints()

    def closed(self, url: str) -> str:
        return self._closed(url)

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options for this engine: the interpreter of the nodes; "max" is limited by the
        largest node and the queue; archives are on the cluster; after a failure it waits longer for
        a loss that may have caused it; a container has less time to end."""
        return dataclasses.replace(
            options,
            maximum=self._capacity.largest_container(options.queue),
            settle=SETTLE,
            container_grace=container_grace(read_configuration(self._environ)),
            nodes=nodes.__name__,
            class_path=application_class_path(read_configuration(self._environ)),
            place=self._shared.url(),
        )

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """InvalidPackageError for each request that this cluster can never fulfil; ExistsError."""
        self._refuse_taken(compiled.spec.name)
        problems = self._capacity.check(compiled)
        if problems:
            raise InvalidPackageError(problems)
        return ()

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship. The definition is uploaded too; if only that is new, `create` uploads it
        while YARN accepts the application."""
        store_files(compiled.files)
        files = {file.path.name: file.path for file in compiled.files if file.place}
        for archive in compiled.archives:
            if archive.path is not None and archive.placed:
                files[archive.name] = archive.path
        self._shared.put(files, along=bundled(Definition.of(compiled.spec.name, compiled)))

    def create(self, name: str, compiled: Compiled) -> Application:
        with self._home.lock(name) as held:
            if not held:
                raise refusals.exists(name)
            self._refuse_taken(name)
            return self._submit(Definition.of(name, compiled), run=1)

    def _refuse_taken(self, name: str) -> None:
        if self._register.runs(name, fresh=True):
            raise refusals.exists(name)

    def start(self, name: str) -> Application:
        """See Engine.start. BadStateError if its definition is lost."""
        with self._home.lock(name) as held:
            runs = self._register.known_runs(name)
            if not held or not runs[-1].ended:
                raise refusals.in_use(name, " --engine yarn")
            with keeping_files(self._home.path.parent / CACHE):
                definition = self._register.definition(runs)
                if definition is None:
                    raise BadStateError(
                        f"what {name} is made of is known neither here nor on the cluster",
                        "Start it from where it was created, or destroy it and create it again.",
                    )
                return self._submit(definition, run=len(runs) + 1)

    def _submit(self, definition: Definition, run: int) -> Application:
        report = self._cluster.application(self._submission.submit(definition))
        return self._open(report, run).application()

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. If YARN does not answer, what the master says, or how it had ended. If
        the master alone does not, what it has told this object before."""
        found, last = self._run(name, run), self._found
        try:
            self._found = self._look(found)
        except UnreachableError:
            if found.report.outage:
                raise UnavailableError(
                    found.report.outage, "Is the ResourceManager up that the configuration names?"
                ) from None
            if last is None or last.id != found.report.id:
                raise
            return dataclasses.replace(last, waits=no_answer(last.status))
        return self._found

    def connect(self, name: str) -> Connection:
        """See Engine.connect. The master that takes the place of a lost one is waited for."""
        self._run(name).await_master()
        return super().connect(name)

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        application = self._looked_at.get((name, run))
        growing = self._logs.growing(application) if application else None
        if growing is not None:
            return growing
        found = self._run(name, run)
        self._looked_at[name, run] = found.report.id
        return self._logs.of(found.report, found.accepted.instances)

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        found = self._run(name, run)
        return self._logs.returned(found.report, found.accepted)

    def checkpoints(
        self, name: str, beside: str = ""
    ) -> contextlib.AbstractContextManager[Checkpoints]:
        run = self._run(name)
        known = run.accepted
        if not known.checkpoint_dir:
            known = self._register.accepted(run.report, fetch=True)
        place = known.checkpoint_dir and f"{known.checkpoint_dir}{beside}"
        found = checkpoints_of(name, place, self._environ, known.storage_schemes)
        return contextlib.nullcontext(found)

    def destroy(self, name: str) -> None:
        """See Engine.destroy. YARN keeps its own reports and logs as configured. tfapp hides them,
        also on other machines within a minute."""
        with self._home.lock(name) as held:
            runs = self._register.known_runs(name)
            if not held or not runs[-1].ended:
                raise refusals.in_use(name, " --engine yarn")
            self._register.destroy(runs)

    def _runs_of(self, name: str) -> Mapping[int, YarnReport]:
        """If YARN does not answer, those that it has told of before, as far as they were looked at
        from here."""
        try:
            runs = self._register.known_runs(name)
        except UnavailableError as error:
            noted = self._register.noted(name)
            if isinstance(error, ForbiddenError) or not noted:
                raise
            runs = tuple(dataclasses.replace(run, outage=error.message) for run in noted)
        return dict(enumerate(runs, 1))

    def _newest(self) -> Iterator[tuple[str, int, YarnReport]]:
        for report, number in self._register.newest():
            yield report.name, number, report

    def _open(self, place: YarnReport, number: int) -> YarnRun:
        folder = self._home.run(place.id)
        self._register.note(place)
        return YarnRun(
            place, number, folder, self._cluster, self._environ, self._register, self._logs
        )


def _connect(used: weakref.ref[YarnEngine], report: YarnReport) -> Connection:
    """A connection for a thread that copies logs, as long as somebody has the engine."""
    engine = used()
    if engine is None:
        raise UnreachableError(f"the logs of {report.name} are not copied any more")
    return engine._open(report, 0).client.connect()
