"""Runs applications on a Kubernetes cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp import threads
from tfapp.contract.names import IMAGE_PYTHON
from tfapp.disk import delete_tree, make_private, write_json, writing
from tfapp.engines import refusals
from tfapp.engines.base import (
    Application,
    Checkpoints,
    LogFile,
    check_files_are_local,
    check_run_modes,
)
from tfapp.engines.container_files import newest_returned
from tfapp.engines.definition import Definition
from tfapp.engines.known import BaseEngine
from tfapp.engines.kubernetes.logs import COORDINATOR, PodLog, PodLogs, growing, in_order, sources
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.run import Forwards, KubernetesRecord, KubernetesRun, reaching
from tfapp.engines.refusals import DamagedError
from tfapp.engines.tidying import delete_shipped
from tfapp.errors import (
    ExistsError,
    ForbiddenError,
    InUseError,
    InvalidPackageError,
    UnavailableError,
)
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.engines.kubernetes.api import KubernetesCluster
    from tfapp.engines.kubernetes.submission import KubernetesSubmission
    from tfapp.package.model import AppPackage

LAST_LINES = 15.0  # seconds after the verdict for the last lines of logs
LOOK_EVERY = 0.2
SETTLE = 5.0  # seconds: so late the API may show the loss of a pod that others fail by


class KubernetesEngine(BaseEngine[KubernetesRecord, KubernetesRun]):
    """Runs applications on the cluster that `environ` selects; see BaseEngine. `namespace`,
    `context`: "" for those of the configuration."""

    name = "kubernetes"
    outage = 900.0

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        namespace: str = "",
        context: str = "",
        clock: Callable[[], float] = time.time,
    ):
        self._cache_home = home.absolute()
        self._environ = dict(environ)
        self._namespace = namespace
        self._context = context
        self._clock = clock
        self._logs: dict[tuple[str, int], PodLogs] = {}
        # What is open between two calls is closed when nobody has the engine any more. A thread of
        # its own waits for that.
        self._open_between = contextlib.ExitStack()
        close = self._open_between.close
        weakref.finalize(self, threads.start, "tfapp-close", close).atexit = False

    @functools.cached_property
    def _cluster(self) -> KubernetesCluster:
        from tfapp.engines.kubernetes.api import KubernetesCluster

        cluster = KubernetesCluster.open(self._environ, self._namespace, self._context)
        self._open_between.callback(cluster.hang_up)
        return cluster

    @property
    def reaches_pages(self) -> bool:
        return self._cluster.in_cluster

    @functools.cached_property
    def _forwards(self) -> Forwards:
        forwards = Forwards(self._cluster)
        self._open_between.callback(forwards.close)
        return forwards

    @property
    def _submission(self) -> KubernetesSubmission:
        from tfapp.engines.kubernetes.submission import KubernetesSubmission

        return KubernetesSubmission(self._cluster, self._forwards, self._cache_home, self._clock)

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        from tfapp.engines.kubernetes import doctor

        return doctor.examine(
            self._cache_home, self._environ, self._namespace, self._context, self._clock
        )

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options for this engine: the interpreter of the image; tfapp is compressed, and not
        precompiled; after a failure it waits longer for a loss that may have caused it."""
        from tfapp.compiler.runtime import read_runtime
        from tfapp.engines.kubernetes.pods import MASTER_FILES, Places, check

        at = Places.of(options, self._cluster.namespace)
        return dataclasses.replace(
            options,
            python=IMAGE_PYTHON,
            runtime=read_runtime(MASTER_FILES, compiled=False),
            small=True,  # it has to fit into a Secret
            settle=SETTLE,
            check=lambda plan: check(plan, at),
        )

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """InvalidPackageError for each request that the cluster refuses; ExistsError."""
        from tfapp.engines.kubernetes import preflight
        from tfapp.engines.kubernetes.submission import places

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
        from tfapp.engines.kubernetes.objects import rendered
        from tfapp.engines.kubernetes.submission import places

        return rendered(compiled, places(compiled, self._cluster.namespace))

    def create(self, name: str, compiled: Compiled) -> Application:
        definition = Definition.of(name, compiled)
        try:
            found = self._submission.create(definition, compiled, self._keep)
        except ExistsError:
            raise refusals.exists(name) from None
        return self._open(found, 1).application()

    def start(self, name: str) -> Application:
        found = self._record(name)
        last = self._open(found, found.runs()[-1])
        if not last.settle():
            raise self._in_use(last)
        last.clear()
        definition = found.definition()
        self._keep(last.found, definition)
        try:
            started, number = self._submission.start(last.found, definition)
        except InUseError:
            raise refusals.in_use(name, self._flags) from None
        return self._open(started, number).application()

    def _keep(self, found: KubernetesRecord, definition: Definition) -> None:
        """Records the use of files in the cache."""
        folder = found.folder(self._cache_home)
        with writing(folder):
            make_private(folder)
            write_json(folder / "definition.json", definition, durable=True)

    def _changes(self, run: KubernetesRun) -> Iterator[Application]:
        self._bring(run)
        return run.changes()

    def _bring(self, run: KubernetesRun) -> None:
        """Sends the files that the master of a resumed run misses, if they are on this machine."""
        state = run.recorded.state
        if state is not None and state.attempt > 1 and state.missing and not run.suspended:
            with contextlib.suppress(UnavailableError):
                self._submission.supply(run, run.found.definition())

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs. After the verdict, once, waits for the last lines of containers that are
        about to end."""
        followed, found = self._sources(name, run)
        logs = self._logs_of(followed)
        if followed.is_ending() and not logs.awaited:
            logs.awaited = True
            deadline = time.monotonic() + LAST_LINES
            while growing(found) and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY)
                _, found = self._sources(name, run)
        return logs.files(found)

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        followed, found = self._sources(name, run)
        own = (source for source in found if source.instance != COORDINATOR)
        records = self._logs_of(followed).returned(own)
        return newest_returned(records, followed.recorded.last_known)

    def checkpoints(
        self, name: str, beside: str = ""
    ) -> contextlib.AbstractContextManager[Checkpoints]:
        from tfapp.engines.kubernetes.checkpoints import reading

        run = self._run(name)
        known = run.recorded.last_known
        place = known.checkpoint_dir and f"{known.checkpoint_dir}{beside}"
        schemes = known.storage_schemes
        return reading(self._cluster, name, run.number, place, run.found.uid, schemes)

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        found = self._record(name)
        return reaching(self._cluster, name, found.runs()[-1], instance, address)

    def destroy(self, name: str) -> None:
        found = self._record(name)
        definition = None
        with contextlib.suppress(DamagedError):
            run = self._open(found, found.runs()[-1])
            if not run.settle():
                raise self._in_use(run)
            definition = found.definition()
        self._submission.delete(found)
        if definition is not None:
            delete_tree(found.folder(self._cache_home))
            delete_shipped(self._cache_home, [definition])

    @property
    def _flags(self) -> str:
        """The flags with which a command finds the application."""
        place = "".join(
            f" --{flag} {value}"
            for flag, value in (("namespace", self._namespace), ("context", self._context))
            if value
        )
        return f" --engine {self.name}{place}"

    def _in_use(self, run: KubernetesRun) -> InUseError:
        if not run.suspended:
            return refusals.in_use(run.name, self._flags)
        hint = f"It goes on when the Job is resumed. `tfapp stop {run.name}{self._flags}` ends it."
        return InUseError(f"{run.name} is suspended: {run.suspended}", hint)

    def _record(self, name: str) -> KubernetesRecord:
        item = self._cluster.get("ConfigMap", names.application_object(name))
        found = None if item is None else KubernetesRecord.of(item)
        if found is None or found.name != name or not _is_whole(found):
            where = f" in the namespace {self._cluster.namespace}"
            known = (other for other, _, _ in self._newest())
            raise refusals.unknown(name, known, where, self._flags)
        return found

    def _runs_of(self, name: str) -> Mapping[int, KubernetesRecord]:
        found = self._record(name)
        return dict.fromkeys(found.runs(), found)

    def _newest(self) -> Iterator[tuple[str, int, KubernetesRecord]]:
        items = self._cluster.list("ConfigMap", {names.MANAGED_BY: "tfapp"})
        if not items:
            # In a missing namespace, lists are empty. Not every login may read it.
            with contextlib.suppress(ForbiddenError):
                self._cluster.require("Namespace", self._cluster.namespace)
        for found in filter(_is_whole, map(KubernetesRecord.of, items)):
            yield found.name, found.runs()[-1], found

    def _open(self, place: KubernetesRecord, number: int) -> KubernetesRun:
        return KubernetesRun(
            self._cluster, self._forwards, place, number, self._clock, self._cache_home
        )

    def _sources(self, name: str, run: int | None) -> tuple[KubernetesRun, tuple[PodLog, ...]]:
        """A run, and the logs of its pods in order."""
        followed = self._run(name, run)
        job_order = [i.instance for i in followed.recorded.last_known.instances]
        pods = list(sources(followed.pods(), job_order))
        pods += self._logs_of(followed).kept(source.pod for source in pods)
        return followed, in_order(pods, job_order)

    def _logs_of(self, run: KubernetesRun) -> PodLogs:
        key = (run.found.uid, run.number)
        if key not in self._logs:
            self._logs[key] = PodLogs(self._cluster, run.logs)
            self._open_between.callback(self._logs[key].close)
        return self._logs[key]


def _is_whole(found: KubernetesRecord) -> bool:
    """Whether it is the record of an application that has a run and was not destroyed."""
    return bool(found.name and found.runs()) and not found.destroyed
