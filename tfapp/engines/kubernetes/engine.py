"""Runs applications on a Kubernetes cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.tags import of_the_user
from tfapp.contract.names import FINAL_STATES
from tfapp.contract.status import ApplicationStatus
from tfapp.disk import delete_tree, make_private, write_json, writing
from tfapp.engines import refusals
from tfapp.engines.base import DAMAGED, Application, Checkpoints, LogFile, check_run_modes
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes import names
from tfapp.engines.kubernetes.logs import COORDINATOR, Logs, Source, in_order, sources
from tfapp.engines.kubernetes.run import Forwards, Record, Run
from tfapp.engines.leftovers import delete_shipped
from tfapp.engines.refusals import DamagedError
from tfapp.engines.returned_files import newest
from tfapp.errors import (
    ExistsError,
    ForbiddenError,
    InUseError,
    InvalidPackageError,
    UnavailableError,
    UnreachableError,
)
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.engines.kubernetes.api import Cluster
    from tfapp.engines.kubernetes.submission import Submission
    from tfapp.package.model import AppPackage
    from tfapp.protocol.connection import Connection

MAX_LOOKS = 16  # applications that are looked at at the same time
WATCH = 5.0  # seconds of one watch of a record; then the Job is looked at
WATCH_BEFORE = 1.0  # the same before its master serves
OUTAGE = 900.0  # seconds in which the API may be away
OUTAGE_EVERY = 1.0
SETTLE = 5.0  # seconds: so late the API may show the loss of a pod that others fail by
PYTHON = "python3"  # of the image


class KubernetesEngine:
    """Runs applications on the cluster that `environ` selects; see tfapp.engines.base.Engine.
    `namespace`, `context`: "" for those of the configuration."""

    name = "kubernetes"
    sees_home = False
    run_modes = frozenset({"local"})
    stays = False

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        namespace: str = "",
        context: str = "",
        clock: Callable[[], float] = time.time,
    ):
        self._cache_home = home.absolute()
        self._home = home.absolute() / "kubernetes" / "applications"
        self._environ = dict(environ)
        self._namespace = namespace
        self._context = context
        self._clock = clock
        self._logs: dict[tuple[str, int], Logs] = {}

    @functools.cached_property
    def _cluster(self) -> Cluster:
        from tfapp.engines.kubernetes.api import Cluster

        return Cluster.open(self._environ, self._namespace, self._context)

    @property
    def reaches_pages(self) -> bool:
        """See Engine.reaches_pages: the addresses of pods are the cluster's own."""
        return self._cluster.in_cluster

    @functools.cached_property
    def _forwards(self) -> Forwards:
        return Forwards(self._cluster)

    @property
    def _submission(self) -> Submission:
        from tfapp.engines.kubernetes.submission import Submission

        return Submission(self._cluster, self._forwards, self._cache_home, self._clock)

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """See Engine.examine. Creates nothing."""
        from tfapp.engines.kubernetes import doctor

        return doctor.examine(
            self._cache_home, self._environ, self._namespace, self._context, self._clock
        )

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """See Engine.preparing. The time is spent on the cluster."""
        return contextlib.nullcontext()

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options for this engine: the interpreter of the image; tfapp is not precompiled;
        after a failure it waits longer for a loss that may have caused it."""
        from tfapp.compiler.runtime import read_runtime
        from tfapp.engines.kubernetes.pods import Places, check

        at = Places.of(options, self._cluster.namespace)
        return dataclasses.replace(
            options,
            python=PYTHON,
            runtime=read_runtime(master=True, compiled=False),
            settle=SETTLE,
            check=lambda package, job: check(package, job, at),
        )

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """InvalidPackageError for each request that the namespace can never fulfil; ExistsError."""
        from tfapp.engines.kubernetes import preflight
        from tfapp.engines.kubernetes.submission import places
        from tfapp.engines.recorded import check_files_are_local

        check_run_modes(self, compiled)
        check_files_are_local(compiled)
        name = compiled.spec.name
        if self._cluster.get("ConfigMap", names.application_object(name)) is not None:
            raise refusals.exists(name)
        problems = preflight.check(
            self._cluster, compiled, places(compiled, self._cluster.namespace)
        )
        if has_errors(problems):
            raise InvalidPackageError(problems)
        return tuple(problem for problem in problems if problem not in compiled.problems)

    def rendered(self, compiled: Compiled) -> str:
        """See Engine.rendered."""
        from tfapp.engines.kubernetes.objects import rendered
        from tfapp.engines.kubernetes.submission import places

        return rendered(compiled, places(compiled, self._cluster.namespace))

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship. Small files are put into a Secret; large ones are sent from the cache to
        the master."""
        from tfapp.compiler.store import store_files

        store_files(compiled.files)

    def create(self, name: str, compiled: Compiled) -> Application:
        """See Engine.create."""
        definition = Definition.of(name, compiled)
        try:
            found = self._submission.create(definition, compiled, self._keep)
        except ExistsError:
            raise refusals.exists(name) from None
        return self._application(self._run(found, 1))

    def start(self, name: str) -> Application:
        """See Engine.start."""
        found = self._record(name)
        last = self._run(found, found.runs()[-1])
        if not last.settle():
            raise refusals.in_use(name, self._flags)
        definition = found.definition()
        self._keep(last.found, definition)
        try:
            started, number = self._submission.start(last.found, definition)
        except InUseError:
            raise refusals.in_use(name, self._flags) from None
        return self._application(self._run(started, number))

    def _keep(self, found: Record, definition: Definition) -> None:
        """Records the use of files in the cache."""
        folder = self._home / found.uid
        with writing(folder):
            make_private(folder)
            write_json(folder / "definition.json", definition, durable=True)

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find."""
        found = self._record(name)
        return self._look(found, self._number(found, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list."""
        labels = {names.MANAGED_BY: "tfapp"}
        records = [Record.of(item) for item in self._cluster.list("ConfigMap", labels)]
        if not records:
            self._check_namespace()
        with ThreadPoolExecutor(MAX_LOOKS) as pool:
            found = list(pool.map(self._look_or_damaged, filter(_is_whole, records)))
        return tuple(sorted(found, key=lambda a: (a.status.started, a.id), reverse=True))

    def _look_or_damaged(self, found: Record) -> Application:
        number = found.runs()[-1]
        try:
            return self._look(found, number)
        except DamagedError as error:
            status = ApplicationStatus(found.name, DAMAGED, None, 0.0, 0.0, ())
            return Application(
                found.name, self.name, "", number, False, status, waits=error.message
            )
        except UnreachableError:  # destroyed meanwhile
            return self._application(self._run(found, number))

    def follow(self, name: str, run: int | None = None) -> Iterator[Application]:
        """See Engine.follow. If the API server does not answer, it says so once and retries."""
        found = self._record(name)
        followed = self._run(found, self._number(found, run))
        last: Application | None = None
        give_up, told = 0.0, ""
        while True:
            try:
                if followed.settle():
                    break
                for application in self._changes(followed):
                    give_up, told = 0.0, ""
                    if application != last:
                        last = application
                        yield application
            except UnavailableError as error:
                give_up = give_up or time.monotonic() + OUTAGE
                if isinstance(error, ForbiddenError) or time.monotonic() > give_up:
                    raise
                if not told:
                    told = f"{error.message}; tfapp goes on asking"
                    yield self._application(followed, told)
                time.sleep(OUTAGE_EVERY)
        yield self._application(followed)

    def _changes(self, run: Run) -> Iterator[Application]:
        """Yields the run now and at each change, for WATCH seconds or until its record has an
        ending. Nothing if it has a verdict."""
        waits = run.waits()
        seconds = WATCH if run.serves else WATCH_BEFORE
        silent = [""]
        watch = self._cluster.watch(
            "ConfigMap", name=run.found.object_name, timeout=seconds, away=silent.append
        )
        for kind, item in watch:
            if kind == "DELETED":
                return
            run.take(Record.of(item))
            if run.recorded.ending is not None:
                return
            if run.recorded.last_known.state not in FINAL_STATES:
                yield self._application(run, waits)
        if silent[-1]:
            raise UnavailableError(silent[-1])

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs."""
        followed, found = self._sources(name, run)
        return self._logs_of(followed).files(found)

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.returned."""
        followed, found = self._sources(name, run)
        own = (source for source in found if source.instance != COORDINATOR)
        records = self._logs_of(followed).returned(own)
        return newest(records, followed.recorded.last_known)

    def checkpoints(self, name: str) -> contextlib.AbstractContextManager[Checkpoints]:
        """See Engine.checkpoints."""
        from tfapp.engines.kubernetes.checkpoints import reading

        found = self._record(name)
        run = self._run(found, found.runs()[-1])
        folder = run.recorded.last_known.checkpoint_dir
        return reading(self._cluster, name, run.number, folder, found.uid)

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        """See Engine.reach: forwards a port of the instance's pod."""
        from tfapp.engines.kubernetes.pages import reaching

        found = self._record(name)
        return reaching(self._cluster, name, found.runs()[-1], instance, address)

    def connect(self, name: str) -> Connection:
        """See Engine.connect."""
        found = self._record(name)
        run = self._run(found, found.runs()[-1])
        if run.settle():
            raise refusals.not_running(name)
        return run.client.connect()

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. An application whose master does not run is ended by deleting its
        Job."""
        found = self._record(name)
        run = self._run(found, found.runs()[-1])
        if not run.settle():
            run.stop(message, force, timeout)
            run.wait_for_end(0)
        return self._application(run)

    def destroy(self, name: str) -> None:
        """See Engine.destroy. Waits until all objects are deleted."""
        found = self._record(name)
        definition = None
        with contextlib.suppress(DamagedError):
            if not self._run(found, found.runs()[-1]).settle():
                raise refusals.in_use(name, self._flags)
            definition = found.definition()
        self._submission.delete(found)
        folder = self._home / found.uid
        if definition is not None:
            delete_tree(folder)
            delete_shipped(self._cache_home, [definition])

    # -- inside --
    @property
    def _flags(self) -> str:
        """The flags with which a command finds the application."""
        place = "".join(
            f" --{flag} {value}"
            for flag, value in (("namespace", self._namespace), ("context", self._context))
            if value
        )
        return f" --engine {self.name}{place}"

    def _record(self, name: str) -> Record:
        item = self._cluster.get("ConfigMap", names.application_object(name))
        found = None if item is None else Record.of(item)
        if found is None or found.name != name or not _is_whole(found):
            self._check_namespace()
            where = f" in the namespace {self._cluster.namespace}"
            raise refusals.unknown(name, self._names(), where, self._flags)
        return found

    def _check_namespace(self) -> None:
        """NotFoundError if the namespace is missing, as far as the login may read it: in a missing
        namespace, lists are empty."""
        with contextlib.suppress(ForbiddenError):
            self._cluster.require("Namespace", self._cluster.namespace)

    def _names(self) -> tuple[str, ...]:
        items = self._cluster.list("ConfigMap", {names.MANAGED_BY: "tfapp"})
        return tuple(found.name for found in map(Record.of, items) if _is_whole(found))

    def _number(self, found: Record, run: int | None) -> int:
        known = found.runs()
        if run is not None and run not in known:
            raise refusals.no_such_run(found.name, run, known)
        return known[-1] if run is None else run

    def _run(self, found: Record, number: int) -> Run:
        return Run(self._cluster, self._forwards, found, number, self._clock)

    def _look(self, found: Record, number: int) -> Application:
        run = self._run(found, number)
        return self._application(run, "" if run.settle() else run.waits())

    def _sources(self, name: str, run: int | None) -> tuple[Run, tuple[Source, ...]]:
        """A run, and the logs of its pods in order."""
        found = self._record(name)
        followed = self._run(found, self._number(found, run))
        job_order = [i.instance for i in followed.recorded.last_known.instances]
        pods = list(sources(followed.pods(), job_order))
        pods += self._logs_of(followed).kept(source.pod for source in pods)
        return followed, in_order(pods, job_order)

    def _logs_of(self, run: Run) -> Logs:
        key = (run.found.uid, run.number)
        if key not in self._logs:
            self._logs[key] = Logs(self._cluster, self._logs_folder(run))
        return self._logs[key]

    def _logs_folder(self, run: Run) -> Path:
        """The folder for copies of a run's logs."""
        return self._home / run.found.uid / "runs" / str(run.number)

    def _application(self, run: Run, waits: str = "") -> Application:
        recorded = run.recorded
        return Application(
            name=run.name,
            engine=self.name,
            id=recorded.record.application,
            run=run.number,
            live=recorded.ending is None,
            status=recorded.last_known,
            tags=of_the_user(run.found.tags()),
            waits=waits,
            logs=str(logs) if (logs := self._logs_folder(run)).exists() else "",
        )


def _is_whole(found: Record) -> bool:
    """Whether it is the record of an application that has a run and was not destroyed."""
    return bool(found.name and found.runs()) and not found.destroyed
