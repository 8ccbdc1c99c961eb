"""Applications on a YARN cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import getpass
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.python import node_python
from tfapp.compiler.store import keeping_files, store_files
from tfapp.compiler.tags import of_the_user
from tfapp.contract.diagnostics import parse_diagnostics
from tfapp.contract.log_lines import CANNOT_START
from tfapp.contract.states import FINAL_STATES
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application, Link, LogFile, time_to_stop
from tfapp.engines.credentials import new_credentials
from tfapp.engines.definition import Definition
from tfapp.engines.diagnosis import PROBLEM, Finding
from tfapp.engines.leftovers import CACHE
from tfapp.engines.yarn import doctor, trial, verdict
from tfapp.engines.yarn.bundle import Bundle
from tfapp.engines.yarn.cluster import Cluster, Report
from tfapp.engines.yarn.configuration import manager_addresses, read_configuration
from tfapp.engines.yarn.kerberos import find_user
from tfapp.engines.yarn.layout import Credentials, Home
from tfapp.engines.yarn.logs import Logs
from tfapp.engines.yarn.master import Master
from tfapp.engines.yarn.place import Place
from tfapp.engines.yarn.preflight import Request, check, queue_refused
from tfapp.engines.yarn.register import Register
from tfapp.engines.yarn.scheduler import Ask, QueueRules, asking, exclusive_labels, queue_rules
from tfapp.engines.yarn.user_names import name_of
from tfapp.engines.yarn.web import Web
from tfapp.errors import (
    BadStateError,
    ExistsError,
    ForbiddenError,
    InUseError,
    InvalidPackageError,
    UnavailableError,
    UnreachableError,
)

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.package.model import AppPackage
    from tfapp.skein_calls.connection import Connection
    from tfapp.skein_library import skein

WAIT_EVERY = 0.5  # seconds between two looks for a master, and for an end
SHUTDOWN_LIMIT = 30.0  # seconds for YARN to end an application
PATIENCE = 5.0  # seconds that an application may wait for its master without a word of why
OUTAGE = 900.0  # seconds; YARN's yarn.resourcemanager.connect.max-wait.ms as it comes
SETTLE = 6.0  # seconds: a master hears of a lost container within 5


class YarnEngine:
    """Runs applications on the cluster that `environ` names; see tfapp.engines.base.Engine.
    `user`: who they belong to, by default who calls."""

    name = "yarn"
    sees_home = False

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
        self._place = Place(self._home, self._environ, self._user, clock)
        self._register = Register(self._home, self._cluster, self._place, self._user, clock)
        self._web = Web(self._environ)
        self._logs = Logs(self._home, self._cluster, self._environ, self._web)
        # Which run a pair of name and number is; asked for many times while logs grow.
        self._looked_at: dict[tuple[str, int | None], str] = {}

    def examine(self, python: str | None = None, queue: str = "default") -> Iterator[Finding]:
        """See Engine.examine. It takes one small container on each node."""
        well = True
        home = self._home.path.parent
        for finding in doctor.examine(home, self._environ, self._cluster, self._web, self._clock):
            well &= finding.level != PROBLEM
            yield finding
        if python is not None and well:
            nodes = self._cluster.nodes()
            yield from trial.examine_nodes(
                self._cluster, self._web, nodes, python, queue, self._clock()
            )

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """See Engine.preparing. The cluster takes its time later."""
        return contextlib.nullcontext()

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """As this engine needs them: the interpreter is one of the nodes', "max" is what the
        largest node has or the queue allows, archives lie on the cluster, and a failure waits
        longer for the loss that caused it."""
        python, key = node_python(package, options)
        nodes, rules = self._cluster.nodes(), self._rules(options.queue)
        maximum = {
            field: max((getattr(node, field) for node in nodes), default=0)
            for field in ("memory", "vcores")
        }
        if rules is not None:
            maximum = {f: min(most, rules.maximum.get(f, most)) for f, most in maximum.items()}
        return dataclasses.replace(
            options,
            python=python,
            python_key=key,
            maximum=maximum,
            settle=SETTLE,
            place=self._place.url(),
        )

    def check(self, compiled: Compiled) -> None:
        """InvalidPackageError with each thing that this cluster can never give; ExistsError."""
        self._refuse_taken(compiled.spec.name)
        package, spec = compiled.package, compiled.spec
        if package is None:
            return
        size = spec.master.resources
        label = package.master.label
        master = Request(package.master, label, size.memory, size.vcores, size.gpus)
        queues, nodes = self._cluster.queues(), self._cluster.nodes()
        rules = self._rules(spec.queue)
        facts = (queues, nodes, rules, self._exclusive_labels)
        problems = tuple(check(package, compiled.job, master, spec.queue, *facts))
        if problems:
            raise InvalidPackageError(tuple(sorted(problems)))

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship. The definition goes along; where nothing else is new, `create` brings
        it while YARN takes the application."""
        store_files(compiled.files)
        files = {file.path.name: file.path for file in compiled.files if file.place}
        python = compiled.travelling
        if python is not None and python.path is not None and python.placed:
            files[python.name] = python.path
        self._place.put(files, along=_bundled(Definition.of(compiled.spec.name, compiled)))

    def _rules(self, queue: str) -> QueueRules | None:
        """None where the ResourceManager's web service does not tell: Kerberos protects it, or
        it cannot be reached from here."""
        try:
            return queue_rules(queue, self._asking())
        except OSError:
            return None

    def _exclusive_labels(self) -> frozenset[str] | None:
        """None as with `_rules`."""
        try:
            return exclusive_labels(self._asking())
        except OSError:
            return None

    def _asking(self) -> Ask:
        return asking(tuple(manager_addresses(read_configuration(self._environ))), self._web)

    def create(self, name: str, compiled: Compiled) -> Application:
        """See Engine.create."""
        with self._home.lock(name) as held:
            if not held:
                raise _taken(name)
            self._refuse_taken(name)
            return self._submit(Definition.of(name, compiled), run=1)

    def _refuse_taken(self, name: str) -> None:
        if self._register.runs(name, fresh=True):
            raise _taken(name)

    def start(self, name: str) -> Application:
        """See Engine.start. BadStateError where nobody knows any more what it is made of."""
        with self._home.lock(name) as held:
            runs = self._register.known_runs(name)
            if not held or not runs[-1].ended:
                raise _in_use(name)
            with keeping_files(self._home.path.parent / CACHE):
                definition = self._register.definition(runs)
                if definition is None:
                    raise BadStateError(
                        f"what {name} is made of is known neither here nor on the cluster",
                        "Start it from where it was created, or destroy it and create it again.",
                    )
                return self._submit(definition, run=len(runs) + 1)

    def _submit(self, definition: Definition, run: int) -> Application:
        from tfapp.skein_library import skein

        credentials = Credentials(*new_credentials(self._clock()))
        spec = skein.ApplicationSpec.from_dict(dict(definition.spec))
        spec.master.security = skein.Security(
            cert_bytes=credentials.certificate, key_bytes=credentials.key
        )
        # Where its definition cannot be kept it runs all the same: `start` elsewhere says so.
        with ThreadPoolExecutor(1) as pool:
            keeping = pool.submit(self._place.keep, _bundled(definition))
            application = self._submit_spec(spec, definition, keeping)
            try:
                self._register.write(application, definition, credentials)
            except BaseException:
                self._cluster.kill(application)
                raise
        report = self._cluster.application(application)
        return self._application(report, run, self._accepted(report))

    def _submit_spec(
        self, spec: skein.ApplicationSpec, definition: Definition, keeping: Future[None]
    ) -> str:
        """YARN's id of it. Files that were deleted on the cluster come back before."""
        try:
            return self._cluster.submit(spec)
        except ForbiddenError as error:
            raise InvalidPackageError((queue_refused(spec.queue, self._user),)) from error
        except UnavailableError:
            keeping.exception()  # one at a time
            if not self._place.restore(definition.sources()):
                raise
            with contextlib.suppress(UnavailableError):
                self._place.keep(_bundled(definition))
            return self._cluster.submit(spec)

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. UnreachableError when its master lives and does not answer."""
        return self._look(*self._register.run(name, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list. One whose master does not answer is listed as it was accepted."""
        found = []
        for report, number in self._register.newest():
            try:
                found.append(self._look(report, number, fetch=False))
            except UnreachableError:
                accepted = self._register.accepted(report, fetch=False)
                found.append(self._application(report, number, accepted))
        return tuple(sorted(found, key=lambda a: a.status.started, reverse=True))

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
        """What YARN says now. While it does not answer, the application goes on: that is yielded
        once, and YARN is asked again for as long as its own clients would."""
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

    def _is_over(self, report: Report) -> bool:
        """False also where YARN does not answer."""
        with contextlib.suppress(UnavailableError):
            return self._cluster.application(report.id).ended
        return False

    def _changes(self, report: Report) -> Iterator[ApplicationStatus]:
        for status in self._master(report).changes(ended=lambda: self._is_over(report)):
            if status.verdict is not None:
                # Nothing is written any more, and YARN is about to move the logs away.
                self._logs.copy(report.id)
            yield status

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs. The copies of a running application go on growing."""
        application = self._looked_at.get((name, run))
        growing = self._logs.growing(application) if application else None
        if growing is not None:
            return growing
        report, _ = self._register.run(name, run)
        self._looked_at[name, run] = report.id
        instances = self._accepted(report).instances
        return self._logs.of(report, [instance.instance for instance in instances])

    def connect(self, name: str) -> Connection:
        """See Engine.connect."""
        report, _ = self._register.run(name, None)
        if report.ended:
            raise BadStateError(f"{name} is not running", f"`tfapp start {name}` runs it again.")
        return self._master(report).connect()

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. What has no coordinator yet, or does not end in time, is ended by its
        master; what has no master either, or one that does not answer, is killed by YARN."""
        report, number = self._register.run(name, None)
        if not report.ended and not force:
            asked = self._master(report).ask_to_stop(message)
            if asked is not None:
                report = self._await_end(report, time_to_stop(asked, timeout))
        if not report.ended and self._master(report).shut_down(message):
            report = self._await_end(report, SHUTDOWN_LIMIT)
        if not report.ended:
            self._cluster.kill(report.id)
            report = self._await_end(report, SHUTDOWN_LIMIT)
        return self._look(report, number)

    def _await_end(self, report: Report, timeout: float) -> Report:
        deadline = time.monotonic() + timeout
        while not report.ended and time.monotonic() < deadline:
            time.sleep(WAIT_EVERY)
            report = self._cluster.application(report.id)
        return report

    def destroy(self, name: str) -> None:
        """See Engine.destroy. YARN itself keeps its reports and logs of applications for as long
        as it is configured to; tfapp does not show them any more, elsewhere within a minute."""
        with self._home.lock(name) as held:
            runs = self._register.known_runs(name)
            if not held or not runs[-1].ended:
                raise _in_use(name)
            self._register.destroy(runs)

    # -- inside --
    def _accepted(self, report: Report) -> ApplicationStatus:
        """The status until there is another. The cluster is asked for the definition only where
        nothing else will tell of the instances."""
        told = parse_diagnostics(report.diagnostics) if report.ended else None
        return told or self._register.accepted(report, fetch=report.ended or not report.address)

    def _look(self, report: Report, number: int, fetch: bool = True) -> Application:
        status: ApplicationStatus | None = None
        found: tuple[Link, ...] = ()
        if report.address and not report.ended:
            try:
                status, found = self._master(report).look()
            except UnreachableError:
                report = self._cluster.application(report.id)
                if not report.ended:
                    raise
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

    def _master(self, report: Report) -> Master:
        return Master(report, self._home.run(report.id), self._environ)

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
        )


def _bundled(definition: Definition) -> dict[str, bytes]:
    """What others need to start it, by the name of its file; nothing where the cluster has no
    place for that."""
    bundle = Bundle.of(definition)
    return {bundle.name: bundle.encode()} if bundle and bundle.name else {}


def _taken(name: str) -> ExistsError:
    return ExistsError(
        f"there is an application {name} already",
        f"`tfapp start {name}` runs it again, `tfapp destroy {name}` forgets it.",
    )


def _in_use(name: str) -> InUseError:
    return InUseError(f"{name} is running", f"`tfapp stop {name} --engine yarn` ends it.")
