"""The base of engines that record applications in folders under TFAPP_HOME and run masters as
processes of this machine. An engine adds its launcher and its requirements."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from tfapp.compiler.tags import of_the_user
from tfapp.contract.names import FINAL_STATES, KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.disk import delete_tree, write_json, writing
from tfapp.engines import refusals, verdict
from tfapp.engines.base import DAMAGED, Application, Checkpoints, LogFile
from tfapp.engines.checkpoint_folder import local_checkpoints
from tfapp.engines.client import Address, Client
from tfapp.engines.definition import Definition
from tfapp.engines.folders import AppFolder, Home, RunFolder
from tfapp.engines.leftovers import delete_shipped
from tfapp.engines.log_files import log_files, returned_files
from tfapp.engines.refusals import DamagedError
from tfapp.engines.runs import Runs
from tfapp.engines.state import MasterState, RunConfig, read_config, read_ending, read_state
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.master.ending import Ending
from tfapp.processes import is_alive, send, wait_for_exit

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage
    from tfapp.problems import Problem
    from tfapp.protocol.connection import Connection

MAX_LOOKS = 32  # masters that are asked at the same time
KILL_DEADLINE = 15.0  # seconds for a killed master to be gone


class _Starting:
    """A run whose master does not serve yet."""


class _Serving:
    """A run with a living master: see tfapp.engines.client.Run."""

    notice = 0.5

    def __init__(self, run: RunFolder, config: RunConfig, state: MasterState, clear_up: Callable):
        self.accepted = config.accepted
        self._name = config.name
        self._run = run
        self._state = state
        self._clear_up = clear_up
        self.client = Client(self)

    def address(self) -> Address:
        try:
            certificate, key = self._run.certificate.read_bytes(), self._run.key.read_bytes()
        except FileNotFoundError as error:  # it has begun to clean up
            raise UnreachableError(f"{self._name} is about to end") from error
        return Address(self._state.address, certificate, key)

    def is_ending(self) -> bool:
        return not self._run.certificate.exists()

    def wait_for_end(self, timeout: float) -> bool:
        if timeout <= 0:
            return not is_alive(self._state.process)
        return wait_for_exit(self._state.process, timeout)

    def kill(self) -> None:
        send(self._state.process, signal.SIGKILL)
        self.wait_for_end(KILL_DEADLINE)
        self._clear_up(self._run, KILLED)


_Settled = Union[Ending, _Serving, _Starting]


class RecordedEngine:
    """See tfapp.engines.base.Engine. Derived engines define the attributes below, `examine`,
    `check`, and whatever else differs.

    `home`: TFAPP_HOME. `folder`: the folder of the engine below it, or `home`. `bind`: the address
    of this machine on which masters listen. `environ`: the environment of the submitting user.
    `python`: the interpreter of masters.
    """

    name = ""
    launcher = ""  # the module of its launcher: see tfapp.engines.serving
    sees_home = False
    run_modes = frozenset({"local"})
    stays = False
    reaches_pages = True

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
        self._hostname = hostname or socket.gethostname()
        self._clock = clock
        self._runs = Runs(
            self._home, self.launcher, self._environ, python, clock, self._hostname, self
        )

    # -- facts, for engines to give --
    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """See Engine.examine."""
        from tfapp.engines.diagnosis import examine_here

        return examine_here(self._cache_home)

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """See Engine.check: ExistsError if the name is taken."""
        name = compiled.spec.name
        if self._home.app(name).runs():
            raise refusals.exists(name)
        return ()

    def rendered(self, compiled: Compiled) -> str:
        """See Engine.rendered."""
        from tfapp.compiler.render import render_spec

        return render_spec(compiled.spec)

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
        """See Engine.preparing: starts a master."""
        return self._runs.preparing(self._home.app(name).run(1))

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """See Engine.options."""
        return options

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship: the master reads the cache."""
        from tfapp.compiler.store import store_files

        store_files(compiled.files)

    def create(self, name: str, compiled: Compiled) -> Application:
        """See Engine.create."""
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
                send(state.process, signal.SIGKILL)
                wait_for_exit(state.process, KILL_DEADLINE)
            self.end_leftovers(run, read_config(run))
            delete_tree(run.path)
            raise
        return run

    def start(self, name: str) -> Application:
        """See Engine.start."""
        newest = self._newest(name)
        with self._home.lock(name) as held:
            definition = Definition.read(self._home.app(name).definition)
            if definition is None:
                raise refusals.unknown(name, self._home.names(), flags=self._flags)
            if not held or not isinstance(self._settle(newest, held=True), Ending):
                raise refusals.in_use(name, self._flags)
            self.check_start(definition)
            return self._accepted(self._launch(definition, newest.number + 1))

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. UnreachableError if the master lives but does not answer."""
        return self._look(self._run(name, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list. An application whose master does not answer is listed with its first
        status. All masters are asked in parallel, because each that does not answer takes seconds.
        """
        apps = map(self._home.app, self._home.names())
        newest = [runs[-1] for runs in (app.runs() for app in apps) if runs]
        with ThreadPoolExecutor(MAX_LOOKS) as pool:
            found = list(pool.map(self._look_or_accept, newest))
        return tuple(sorted(found, key=lambda application: application.id, reverse=True))

    def _look_or_accept(self, run: RunFolder) -> Application:
        try:
            try:
                return self._look(run)
            except UnreachableError:
                return self._application(run, read_config(run).accepted, live=True)
        except DamagedError as error:
            return self._damaged(run, error)

    def _damaged(self, run: RunFolder, error: DamagedError) -> Application:
        name, changed = run.path.parents[1].name, os.stat(run.config).st_mtime
        status = ApplicationStatus(name, DAMAGED, None, changed, changed, ())
        return Application(name, self.name, "", run.number, False, status, waits=error.message)

    def follow(self, name: str, run: int | None = None) -> Iterator[Application]:
        """See Engine.follow. The verdict is yielded once all processes of the application have
        ended."""
        folder = self._run(name, run)
        settled = self._settle_started(folder)
        if isinstance(settled, _Serving):
            for status in settled.client.changes():
                if status.state not in FINAL_STATES:
                    yield self._application(folder, status, live=True)
        yield self._look(folder)

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs. The logs of a damaged run are sorted by name."""
        folder = self._run(name, run)
        return log_files(folder, _job_order(folder))

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.returned."""
        folder = self._run(name, run)
        return returned_files(folder, self._look_or_accept(folder).status)

    def checkpoints(self, name: str) -> contextlib.AbstractContextManager[Checkpoints]:
        """See Engine.checkpoints: a folder of this machine."""
        return contextlib.nullcontext(
            local_checkpoints(name, self._look_or_accept(self._newest(name)).status.checkpoint_dir)
        )

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        """See Engine.reach."""
        return contextlib.nullcontext(address)

    def connect(self, name: str) -> Connection:
        """See Engine.connect."""
        serving = self._settle_started(self._run(name, None))
        if not isinstance(serving, _Serving):
            raise refusals.not_running(name)
        return serving.client.connect()

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. A master that does not answer is killed, together with its
        application."""
        run = self._run(name, None)
        serving = self._settle_started(run)
        if isinstance(serving, _Serving):
            serving.client.stop(message, force, timeout)
        return self._look(run)

    def destroy(self, name: str) -> None:
        """See Engine.destroy. A damaged application is destroyed too, unless its master lives."""
        newest = self._newest(name)
        with self._home.lock(name) as held:
            if not held or not self._is_over(newest):
                raise refusals.in_use(name, self._flags)
            app = self._home.app(name)
            try:
                definition = Definition.read(app.definition)
            except DamagedError:
                definition = None
            trash = self._home.trash(name, self._clock())
            with writing(app.path):
                app.path.rename(trash)  # gone at once, however long the deletion takes
            delete_tree(trash)
            if definition is not None:
                delete_shipped(self._cache_home, [definition])

    def _is_over(self, run: RunFolder) -> bool:
        try:
            return isinstance(self._settle(run, held=True), Ending)
        except DamagedError:
            with contextlib.suppress(DamagedError):
                state = read_state(run)
                return state is None or not is_alive(state.process)
            return True

    # -- inside --
    @property
    def _flags(self) -> str:
        """The flags with which a command selects this engine."""
        from tfapp.engines import DEFAULT_ENGINE, ENGINE_VARIABLE

        default = self._environ.get(ENGINE_VARIABLE) or DEFAULT_ENGINE
        return "" if self.name == default else f" --engine {self.name}"

    def _newest(self, name: str) -> RunFolder:
        runs = self._home.app(name).runs()
        if not runs:
            raise refusals.unknown(name, self._home.names(), flags=self._flags)
        return runs[-1]

    def _run(self, name: str, number: int | None) -> RunFolder:
        newest = self._newest(name)
        if number is None:
            return newest
        runs = {run.number: run for run in self._home.app(name).runs()}
        if number not in runs:
            raise refusals.no_such_run(name, number, runs)
        return runs[number]

    def _settle(self, run: RunFolder, held: bool = False) -> _Settled:
        """The present state of the run. `held`: the caller holds the lock of the application."""
        ending = read_ending(run)
        if ending is not None:
            return ending
        config, state = read_config(run), read_state(run)
        if state is not None:
            if state.host != self._hostname:
                raise UnreachableError(
                    f"{config.name} was started on {state.host}", "Ask for it there."
                )
            if is_alive(state.process):
                if not state.address:
                    return _Starting()
                return _Serving(run, config, state, self._clear_up)
        if held:
            return self._runs.clear_up(run)
        with self._home.lock(config.name) as held_now:
            if held_now:
                return self._settle(run, held=True)
        if state is None:
            return _Starting()
        # Another command clears it up.
        return verdict.master_lost(config.accepted, self._clock())

    def _settle_started(self, run: RunFolder) -> Ending | _Serving:
        settled = self._settle(run)
        if isinstance(settled, _Starting):
            raise refusals.starting(read_config(run).name)
        return settled

    def _clear_up(self, run: RunFolder, state: str) -> None:
        with self._home.lock(read_config(run).name) as held:
            if held:
                self._runs.clear_up(run, state)

    def _look(self, run: RunFolder) -> Application:
        settled = self._settle(run)
        if isinstance(settled, _Serving):
            try:
                return self._application(run, settled.client.status(), live=True)
            except UnreachableError:
                if not settled.client.has_ended():
                    raise
            settled = self._settle(run)
        if isinstance(settled, Ending):
            return self._application(run, settled.status, live=False)
        return self._accepted(run)

    def _accepted(self, run: RunFolder) -> Application:
        return self._application(run, read_config(run).accepted, live=True)

    def _application(self, run: RunFolder, status: ApplicationStatus, live: bool) -> Application:
        config = read_config(run)
        return Application(
            name=config.name,
            engine=self.name,
            id=config.application,
            run=config.run,
            live=live,
            status=status,
            tags=of_the_user(config.tags),
            logs=str(run.logs),
        )


def _job_order(run: RunFolder) -> list[str]:
    """The instances in job order; none if the run is damaged."""
    with contextlib.suppress(DamagedError):
        return [i.instance for i in read_config(run).accepted.instances]
    return []


def check_files_are_local(compiled: Compiled) -> None:
    """UnavailableError for a file of the spec that is not on this machine."""
    for part in (compiled.spec.master, *compiled.spec.services.values()):
        for file in part.files.values():
            if not file.source.startswith("file:///"):
                raise UnavailableError(
                    f"{file.source} is not a file of this machine",
                    "This engine ships files from local disks only.",
                )
