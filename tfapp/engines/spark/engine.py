"""Runs applications on the executors of a SparkContext."""

from __future__ import annotations

import atexit
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.engines.base import check_files_are_local, check_run_modes
from tfapp.engines.definition import Definition
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.processes import end_leftovers
from tfapp.engines.machine.recorded import RecordedEngine
from tfapp.engines.machine.state import RunConfig
from tfapp.engines.spark import session
from tfapp.engines.spark.control import ON_DRIVER
from tfapp.engines.spark.driver import Agent
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.problems import Problem, has_errors

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.contract.job import Job
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage

PYTHON = "python3"  # which is the executors' own in a container: see tfapp.engines.spark.container


class SparkEngine(RecordedEngine):
    """Runs applications as jobs of the SparkContext in this process, the driver. They end with the
    driver."""

    name = "spark"
    launcher = "tfapp.engines.spark.launcher"
    stays = True

    def __init__(self, home: Path, environ: Mapping[str, str]):
        super().__init__(home, home / "spark", "", environ)
        self._context: SparkContext | None = None
        self._fed = False

    def use(self, spark: Any) -> None:
        """See RunsInSession: a SparkSession or SparkContext."""
        self._context = session.context_of(spark)
        session.spare_own_jobs(self._context)

    def leave_slot(self) -> None:
        self._fed = True

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        from tfapp.engines.spark import doctor

        yield from super().examine(python, options)
        yield from doctor.examine(self._environ, python)

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        return dataclasses.replace(options, python=PYTHON)

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """InvalidPackageError for requests that Spark can never fulfil; UnavailableError and
        UsageError if Spark cannot be used; then ExistsError if the name is taken. Returns
        warnings."""
        from tfapp.engines.spark import preflight

        check_run_modes(self, compiled)
        check_files_are_local(compiled)
        context = self._opened(compiled.spec.name, self.kept(compiled))
        problems = tuple(preflight.check(context, compiled, self._fed))
        if has_errors(problems):
            raise InvalidPackageError(problems)
        super().check(compiled)
        return problems

    def check_start(self, definition: Definition) -> None:
        self._opened(definition.name, definition.engine)

    def kept(self, compiled: Compiled) -> Mapping[str, Any]:
        """See RecordedEngine.kept: where components run, and how a command opens the session."""
        return kept(compiled.job)

    def bind(self) -> str:
        """See RecordedEngine.bind: an address of the driver that executors can reach."""
        assert self._context is not None
        return session.driver_host(self._context)

    def launched(self, run: RunFolder) -> None:
        """See RecordedEngine.launched: starts the agent, which submits jobs in this process."""
        assert self._context is not None
        try:
            Agent(self._context, run).start()
        except (OSError, ValueError) as error:
            raise UnavailableError(f"the application master cannot be reached: {error}") from error

    def end_leftovers(self, run: RunFolder, config: RunConfig) -> None:
        """See RecordedEngine.end_leftovers: for processes on this machine. Keepers end their
        own."""
        end_leftovers(run, config, sys.executable)

    def _opened(self, name: str, facts: Mapping[str, Any]) -> SparkContext:
        """The given session, or else the one of this process, or else a new one."""
        if self._context is None:
            session.require_pyspark()
            self._context = session.active_context()
        if self._context is None:
            if not facts.get(session.MASTER):
                raise UnavailableError(
                    "there is no SparkSession in this process",
                    f"Give one with spark=, or say where Spark is: {session.MASTER_KEY}.",
                )
            self._context = session.open_context(
                name, facts[session.MASTER], facts[session.SETTINGS]
            )
            atexit.register(self._context.stop)
        session.spare_own_jobs(self._context)
        return session.checked(self._context)


def kept(job: Job) -> dict[str, Any]:
    """The data that a definition stores for this engine."""
    first = job.components[0].settings if job.components else None
    return {
        ON_DRIVER: [c.name for c in job.components if c.settings.flag("spark.on.driver")],
        session.MASTER: first.text("spark.master") if first else "",
        session.SETTINGS: list(first.names("spark.conf")) if first else [],
    }
