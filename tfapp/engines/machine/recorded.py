"""The base of engines that record applications in folders under TFAPP_HOME and run masters as
processes of this machine. An engine adds its launcher and its requirements."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.contract.names import RETURNED_FILE
from tfapp.contract.status import ApplicationStatus
from tfapp.disk import delete_tree, write_json, writing
from tfapp.engines import refusals
from tfapp.engines.base import Application, Checkpoints, LogFile
from tfapp.engines.checkpoint_folder import stored_checkpoints
from tfapp.engines.container_files import container_files, log_order, newest_returned
from tfapp.engines.definition import Definition
from tfapp.engines.known import BaseEngine
from tfapp.engines.machine.folders import AppFolder, Home, RunFolder
from tfapp.engines.machine.run import KILL_DEADLINE, MachineRun
from tfapp.engines.machine.runs import Runs
from tfapp.engines.machine.state import RunConfig, read_config, read_state
from tfapp.engines.refusals import DamagedError
from tfapp.engines.tidying import delete_shipped
from tfapp.errors import UnknownApplicationError
from tfapp.processes import wait_for_exit

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled
    from tfapp.engines.diagnosis import Finding
    from tfapp.problems import Problem


class RecordedEngine(BaseEngine[RunFolder, MachineRun]):
    """See BaseEngine. Derived engines define `launcher`, `examine`, `check`, and whatever else
    differs.

    `home`: TFAPP_HOME. `folder`: the folder of the engine below it, or `home`. `bind`: the address
    of this machine on which masters listen. `environ`: the environment of the submitting user.
    `python`: the interpreter of masters.
    """

    launcher = ""  # the module of its launcher: see tfapp.engines.machine.serving
    looks = 32

    def __init__(
        self,
        home: Path,
        folder: Path,
        bind: str,
        environ: Mapping[str, str],
        python: str = sys.executable,
        clock: Callable[[], float] = time.time,
        hostname: str | None = None,
    ):
        self._cache_home = home.absolute()
        self._home = Home(folder.absolute())
        self._environ = dict(environ)
        self._bind = bind
        self._clock = clock
        hostname = hostname or socket.gethostname()
        self._runs = Runs(self._home, self.launcher, self._environ, python, clock, hostname, self)

    # -- facts, for engines to give --
    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        from tfapp.engines.diagnosis import examine_here

        return examine_here(self._cache_home)

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """See Engine.check: ExistsError if the name is taken."""
        name = compiled.spec.name
        if self._home.app(name).runs():
            raise refusals.exists(name)
        return ()

    def check_start(self, definition: Definition) -> None:
        """The same for a further run of a definition."""

    def bind(self) -> str:
        """The address on which the next master listens."""
        return self._bind

    def gpus(self, definition: Definition) -> tuple[str, ...]:
        """The ids of the GPUs that a run may use."""
        return ()

    def kept(self, compiled: Compiled) -> Mapping[str, Any]:
        """The data of an application that this engine needs for each run."""
        return {}

    def launched(self, run: RunFolder) -> None:
        """Called when the master of `run` serves. TfappError if the run cannot continue."""

    def end_leftovers(self, run: RunFolder, config: RunConfig) -> None:
        """Ends the processes of containers of a run whose master has died."""

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self._runs.preparing(self._home.app(name).run(1))

    def create(self, name: str, compiled: Compiled) -> Application:
        self.check(compiled)
        self._home.prepare()
        with self._home.lock(name) as held:
            app = self._home.app(name)
            if not held or app.runs():
                raise refusals.exists(name)
            try:
                run = self._make(app, Definition.of(name, compiled, self.kept(compiled)))
            except BaseException:
                delete_tree(app.path)
                raise
        return self._accepted(run)

    def _make(self, app: AppFolder, definition: Definition) -> RunFolder:
        delete_tree(app.path)  # what a command left that was killed in the middle of this
        with writing(app.path):
            app.path.mkdir(mode=0o700)
            write_json(app.definition, definition, durable=True)
        return self._launch(definition, 1)

    def _launch(self, definition: Definition, number: int) -> RunFolder:
        run = self._runs.launch(definition, number)
        try:
            self.launched(run)
        except BaseException:
            state = read_state(run)
            if state is not None:
                state.kill()
                wait_for_exit(state.process, KILL_DEADLINE)
            self.end_leftovers(run, read_config(run))
            delete_tree(run.path)
            raise
        return run

    def start(self, name: str) -> Application:
        newest = self._run(name)
        with self._home.lock(name) as held:
            definition = Definition.read(self._home.app(name).definition)
            if definition is None and newest.folder.config.exists():
                raise refusals.damaged(f"{self._home.app(name).definition} is missing")
            if definition is None:  # it was destroyed meanwhile
                raise self._unknown(name)
            if not held or not newest.settle(held=True):
                raise refusals.in_use(name, self._flags)
            self.check_start(definition)
            return self._accepted(self._launch(definition, newest.folder.number + 1))

    def _accepted(self, run: RunFolder) -> Application:
        return self._open(run, run.number).application()

    # -- looking --
    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs. The logs of a damaged run are sorted by name."""
        folder = self._run(name, run).folder
        return log_files(folder, _job_order(folder))

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        folder = self._run(name, run).folder
        return returned_files(folder, self._listed(name, folder.number, folder).status)

    def checkpoints(
        self, name: str, beside: str = ""
    ) -> contextlib.AbstractContextManager[Checkpoints]:
        folder = self._run(name).folder
        status = self._listed(name, folder.number, folder).status
        place = status.checkpoint_dir and f"{status.checkpoint_dir}{beside}"
        return contextlib.nullcontext(stored_checkpoints(name, place, status.storage_schemes))

    # -- ending --
    def destroy(self, name: str) -> None:
        """See Engine.destroy. A damaged application is destroyed too, unless its master lives."""
        newest = self._run(name)
        with self._home.lock(name) as held:
            if not held or not _is_over(newest):
                raise refusals.in_use(name, self._flags)
            app = self._home.app(name)
            try:
                definition = Definition.read(app.definition)
            except DamagedError:
                definition = None
            trash = self._home.trash(name, self._clock())
            with writing(app.path):
                app.path.rename(trash)  # gone at once, however long the deletion takes
            self._home.empty_trash()
            if definition is not None:
                delete_shipped(self._cache_home, [definition])

    # -- inside --
    @property
    def _flags(self) -> str:
        """The flags with which a command selects this engine."""
        from tfapp.engines import DEFAULT_ENGINE, ENGINE_VARIABLE

        default = self._environ.get(ENGINE_VARIABLE) or DEFAULT_ENGINE
        return "" if self.name == default else f" --engine {self.name}"

    def _unknown(self, name: str) -> UnknownApplicationError:
        return refusals.unknown(name, self._home.names(), flags=self._flags)

    def _runs_of(self, name: str) -> Mapping[int, RunFolder]:
        runs = {run.number: run for run in self._home.app(name).runs()}
        if not runs:
            raise self._unknown(name)
        return runs

    def _newest(self) -> Iterator[tuple[str, int, RunFolder]]:
        for name in self._home.names():
            for run in self._home.app(name).runs()[-1:]:
                yield name, run.number, run

    def _open(self, place: RunFolder, number: int) -> MachineRun:
        return MachineRun(self.name, place, self._runs)

    def _changed(self, place: RunFolder) -> float:
        return os.stat(place.config).st_mtime

    def _age(self, application: Application) -> str:
        return application.id  # the clock may have been set back


def _is_over(run: MachineRun) -> bool:
    """Whether a run has ended, whose lock is held; if it is damaged, whether its master has."""
    try:
        return run.settle(held=True)
    except DamagedError:
        with contextlib.suppress(DamagedError):
            state = read_state(run.folder)
            return state is None or not state.lives
        return True


def _job_order(run: RunFolder) -> list[str]:
    """The instances in job order; none if the run is damaged."""
    with contextlib.suppress(DamagedError):
        return [i.instance for i in read_config(run).accepted.instances]
    return []


def log_files(run: RunFolder, job_order: Sequence[str]) -> tuple[LogFile, ...]:
    """The existing logs, in their order."""
    own = (LogFile("coordinator", run.driver_log), LogFile("master", run.master_log))
    logs = (*container_files(run.logs.glob("*")), *(log for log in own if log.path.exists()))
    return tuple(sorted(logs, key=log_order(job_order)))


def returned_files(run: RunFolder, status: ApplicationStatus) -> tuple[LogFile, ...]:
    order = log_order([instance.instance for instance in status.instances])
    return newest_returned(
        sorted(container_files(run.logs.glob("*"), RETURNED_FILE), key=order), status
    )
