"""Runs applications on a YARN cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import getpass
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.store import keeping_files, store_files
from tfapp.compiler.tags import of_the_user
from tfapp.contract.names import CANNOT_START, FINAL_STATES
from tfapp.contract.status import ApplicationStatus, parse_diagnostics
from tfapp.engines import refusals
from tfapp.engines.base import Application, Checkpoints, Link, LogFile
from tfapp.engines.definition import Definition
from tfapp.engines.diagnosis import PROBLEM, Finding
from tfapp.engines.leftovers import CACHE
from tfapp.engines.yarn import doctor, node_check, nodes, verdict
from tfapp.engines.yarn.capacity import Capacity
from tfapp.engines.yarn.checkpoints import checkpoints_of
from tfapp.engines.yarn.cluster import Cluster, Report
from tfapp.engines.yarn.kerberos import find_user
from tfapp.engines.yarn.layout import Home
from tfapp.engines.yarn.links import links
from tfapp.engines.yarn.logs import Logs
from tfapp.engines.yarn.register import Register
from tfapp.engines.yarn.run import WAIT_EVERY, Run
from tfapp.engines.yarn.shared_folder import SharedFolder
from tfapp.engines.yarn.submission import Submission, bundled
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

PATIENCE = 5.0  # seconds that an application may wait for its master without a word of why
OUTAGE = 900.0  # seconds; YARN's yarn.resourcemanager.connect.max-wait.ms as it comes
MAX_LOOKS = 16  # masters that are asked at the same time
SETTLE = 6.0  # seconds: a master hears of a lost container within 5


class YarnEngine:
    """Runs applications on the cluster that `environ` selects; see tfapp.engines.base.Engine.
    `user`: their owner, by default the caller."""

    name = "yarn"
    sees_home = False
    run_modes = frozenset({"local", "docker", "yarn-docker"})
    stays = False
    reaches_pages = True

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        user: str | None = None,
    ):
        self._home = Home(home.absolute() / "yarn")
        self._environ = dict(environ)
        self._clock = clock
        names = functools.partial(name_of, self._home, self._environ)
        self._user = user or find_user(self._environ, getpass.getuser(), names)
        self._cluster = Cluster(self._home, self._environ, clock)
        self._shared = SharedFolder(self._home, self._environ, self._user, clock)
        self._register = Register(self._home, self._cluster, self._shared, self._user, clock)
        self._submission = Submission(
            self._cluster, self._shared, self._register, self._user, clock
        )
        self._web = Web(self._environ)
        self._capacity = Capacity(self._cluster, self._environ, self._web)
        self._logs = Logs(self._home, self._cluster, self._environ, self._web, self._connect)
        # The run of a name and a number, which is asked for many times while logs grow.
        self._looked_at: dict[tuple[str, int | None], str] = {}

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

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """See Engine.preparing. The time is spent on the cluster."""
        return contextlib.nullcontext()

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options for this engine: the interpreter of the nodes; "max" is limited by the
        largest node and the queue; archives are on the cluster; after a failure it waits longer for
        a loss that may have caused it."""
        return dataclasses.replace(
            options,
            maximum=self._capacity.largest_container(options.queue),
            settle=SETTLE,
            nodes=nodes.__name__,
            place=self._shared.url(),
        )

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """InvalidPackageError for each request that this cluster can never fulfil; ExistsError."""
        self._refuse_taken(compiled.spec.name)
        problems = self._capacity.check(compiled)
        if problems:
            raise InvalidPackageError(problems)
        return ()

    def rendered(self, compiled: Compiled) -> str:
        """See Engine.rendered."""
        from tfapp.compiler.render import render_spec

        return render_spec(compiled.spec)

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship. The definition is uploaded too; if only that is new, `create` uploads it
        while YARN accepts the application."""
        store_files(compiled.files)
        files = {file.path.name: file.path for file in compiled.files if file.place}
        for python in compiled.environments.values():
            if python.path is not None and python.placed:
                files[python.name] = python.path
        self._shared.put(files, along=bundled(Definition.of(compiled.spec.name, compiled)))

    def create(self, name: str, compiled: Compiled) -> Application:
        """See Engine.create."""
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
        return self._application(report, run, self._accepted(report))

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. UnreachableError if the master lives but does not answer."""
        return self._look(*self._register.run(name, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list. An application whose master does not answer is listed with its first
        status. All masters are asked in parallel, because each that does not answer takes seconds.
        """
        newest = self._register.newest()
        with ThreadPoolExecutor(MAX_LOOKS) as pool:
            found = pool.map(self._look_or_accept, *zip(*newest)) if newest else ()
        return tuple(sorted(found, key=lambda a: a.status.started, reverse=True))

    def _look_or_accept(self, report: Report, number: int) -> Application:
        try:
            return self._look(report, number, fetch=False)
        except UnreachableError:
            accepted = self._register.accepted(report, fetch=False)
            return self._application(report, number, accepted)

    def follow(self, name: str, run: int | None = None) -> Iterator[Application]:
        """See Engine.follow."""
        report, number = self._register.run(name, run)
        last = self._accepted(report)
        if not report.ended:
            yield self._application(report, number, last)
        said, patient_until = verdict.waiting(report), time.monotonic() + PATIENCE
        while not report.ended:
            if verdict.waiting(report) != said and time.monotonic() > patient_until:
                said = verdict.waiting(report)
                yield self._application(report, number, last)
            if report.address and last.verdict is None:
                for status in self._changes(report):
                    if status != last and status.state not in FINAL_STATES:
                        yield self._application(report, number, status)
                    last = status
            time.sleep(WAIT_EVERY)
            report = yield from self._next_report(report, number, last)
        self._logs.close(report.id)
        yield self._application(report, number, self._ended(report, last))

    def _next_report(
        self, report: Report, number: int, last: ApplicationStatus
    ) -> Generator[Application, None, Report]:
        """The present report. If YARN does not answer, the application is assumed to run: `last` is
        yielded once, and YARN is asked again for as long as its own clients would."""
        give_up, told = time.monotonic() + OUTAGE, False
        while True:
            try:
                return self._cluster.application(report.id)
            except UnavailableError as error:
                if isinstance(error, ForbiddenError) or time.monotonic() > give_up:
                    raise
                if not told:
                    waits = f"{error.message}; tfapp goes on asking"
                    yield dataclasses.replace(self._application(report, number, last), waits=waits)
                told = True
            time.sleep(WAIT_EVERY)

    def _changes(self, report: Report) -> Iterator[ApplicationStatus]:
        """Yields changes until the verdict, or until the master cannot be followed: it is starting
        or ending, and YARN has the state."""
        with contextlib.suppress(UnreachableError):
            for status in self._run(report).client.published():
                if status.verdict is not None:
                    # Nothing is written any more, and YARN is about to move the logs away.
                    self._logs.copy_at_end(report.id)
                yield status
                if status.verdict is not None:
                    return

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs. Copies of the logs of a running application grow."""
        application = self._looked_at.get((name, run))
        growing = self._logs.growing(application) if application else None
        if growing is not None:
            return growing
        report, _ = self._register.run(name, run)
        self._looked_at[name, run] = report.id
        return self._logs.of(report, self._accepted(report).instances)

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.returned."""
        report, _ = self._register.run(name, run)
        return self._logs.returned(report, self._accepted(report))

    def checkpoints(self, name: str) -> contextlib.AbstractContextManager[Checkpoints]:
        """See Engine.checkpoints."""
        report, _ = self._register.run(name, None)
        folder = self._accepted(report).checkpoint_dir
        folder = folder or self._register.accepted(report, fetch=True).checkpoint_dir
        return contextlib.nullcontext(checkpoints_of(name, folder, self._environ))

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        """See Engine.reach: hosts of the cluster are reached directly."""
        return contextlib.nullcontext(address)

    def connect(self, name: str) -> Connection:
        """See Engine.connect."""
        report, _ = self._register.run(name, None)
        if report.ended:
            raise refusals.not_running(name)
        return self._connect(report)

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. YARN kills an application whose master does not exist or does not
        answer."""
        report, number = self._register.run(name, None)
        run = self._run(report)
        if not report.ended:
            run.client.stop(message, force, timeout)
        return self._look(run.report, number)

    def destroy(self, name: str) -> None:
        """See Engine.destroy. YARN keeps its own reports and logs as configured. tfapp hides them,
        also on other machines within a minute."""
        with self._home.lock(name) as held:
            runs = self._register.known_runs(name)
            if not held or not runs[-1].ended:
                raise refusals.in_use(name, " --engine yarn")
            self._register.destroy(runs)

    # -- inside --
    def _accepted(self, report: Report) -> ApplicationStatus:
        """The status until there is another. The definition is fetched from the cluster only if
        nothing else describes the instances."""
        told = parse_diagnostics(report.diagnostics) if report.ended else None
        return told or self._register.accepted(report, fetch=report.ended or not report.address)

    def _look(self, report: Report, number: int, fetch: bool = True) -> Application:
        status: ApplicationStatus | None = None
        found: tuple[Link, ...] = ()
        if report.address and not report.ended:
            run = self._run(report)

            def look(connection: Connection) -> tuple[ApplicationStatus, tuple[Link, ...]]:
                status = run.client.read(connection)
                return status, links(report, status, connection.containers())

            try:
                status, found = run.client.ask(look)
            except UnreachableError:
                if not run.client.has_ended():
                    raise
                report = run.report
        if status is None:
            status = self._accepted(report) if fetch else self._register.accepted(report, fetch)
        if report.ended:
            status, found = self._ended(report, status), ()
        return self._application(report, number, status, found)

    def _ended(self, report: Report, last_known: ApplicationStatus) -> ApplicationStatus:
        self._register.clean_up(report)
        if not verdict.is_unstarted(report):
            return verdict.ended(report, last_known)
        try:
            logs = self._logs.of(report, ())
        except UnavailableError:
            return verdict.ended(report, last_known)
        texts = (log.path.read_text(errors="replace") for log in logs)
        lines = (line for text in texts for line in text.splitlines())
        said = (line[len(CANNOT_START) :] for line in lines if line.startswith(CANNOT_START))
        return verdict.ended(report, last_known, *islice(said, 1))

    def _run(self, report: Report) -> Run:
        folder = self._home.run(report.id)
        return Run(report, folder, self._cluster, self._environ, self._accepted)

    def _connect(self, report: Report) -> Connection:
        return self._run(report).client.connect()

    def _application(
        self, report: Report, run: int, status: ApplicationStatus, more: tuple[Link, ...] = ()
    ) -> Application:
        page = (Link("", "page", report.tracking_url),) if report.tracking_url else ()
        return Application(
            name=report.name,
            engine=self.name,
            id=report.id,
            run=run,
            live=not report.ended,
            status=status,
            tags=of_the_user(report.tags),
            links=(*page, *more),
            waits=verdict.waiting(report),
            logs=str(logs) if (logs := self._home.run(report.id).logs).exists() else "",
        )
