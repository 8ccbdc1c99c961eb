"""Runs applications on this machine."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.engines.base import check_files_are_local, check_run_modes
from tfapp.engines.definition import Definition, docker_engines, gpus_needed
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.gpus import check_enough, visible_gpus
from tfapp.engines.machine.processes import end_leftovers
from tfapp.engines.machine.recorded import RecordedEngine
from tfapp.engines.machine.state import RunConfig

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage
    from tfapp.problems import Problem


class LocalEngine(RecordedEngine):
    """Runs applications as processes of this machine. Memory and vcores are not enforced; GPUs are
    assigned."""

    name = "local"
    launcher = "tfapp.engines.machine.launcher"
    sees_home = True
    run_modes = frozenset({"local", "docker"})

    def __init__(
        self,
        home: Path,
        bind: str = "127.0.0.1",
        environ: Mapping[str, str] | None = None,
        python: str = sys.executable,
        clock: Callable[[], float] = time.time,
        hostname: str | None = None,
    ):
        super().__init__(home, home, bind, environ or {}, python, clock, hostname)
        self._python = python

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        from tfapp.engines.local import doctor

        return doctor.examine(self._home.path, self._environ, python)

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        return dataclasses.replace(options, python_runs=True, sessions=True)

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """UnavailableError for too few GPUs, files that are not on this machine, an unsupported run
        mode, or a Docker engine that does not answer; then ExistsError if the name is taken."""
        needed = gpus_needed(compiled.job)
        if needed:
            check_enough(needed, visible_gpus(self._environ))
        check_run_modes(self, compiled)
        check_files_are_local(compiled)
        hosts = docker_engines(compiled.job)
        if hosts:
            from tfapp.engines.local.doctor import check_docker
        for host in hosts:
            check_docker(host or self._environ.get("DOCKER_HOST", ""))
        return super().check(compiled)

    def check_start(self, definition: Definition) -> None:
        """UnavailableError for too few GPUs."""
        if definition.gpus:
            check_enough(definition.gpus, visible_gpus(self._environ))

    def gpus(self, definition: Definition) -> tuple[str, ...]:
        return visible_gpus(self._environ) if definition.gpus else ()

    def end_leftovers(self, run: RunFolder, config: RunConfig) -> None:
        end_leftovers(run, config, self._python)
