"""Applications on this machine."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Union

from tfapp.close_match import close_match
from tfapp.compiler.tags import of_the_user
from tfapp.contract.states import FINAL_STATES, KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application, LogFile, time_to_stop
from tfapp.engines.definition import Definition, gpus_needed
from tfapp.engines.disk import delete_tree, write_json, writing
from tfapp.engines.leftovers import delete_shipped
from tfapp.engines.local import verdict
from tfapp.engines.local.client import MasterClient
from tfapp.engines.local.gpus import check_enough, visible_gpus
from tfapp.engines.local.layout import AppFolder, Home, RunFolder
from tfapp.engines.local.log_files import log_files
from tfapp.engines.local.runs import Runs
from tfapp.engines.local.state import Ending, read_config, read_ending, read_state
from tfapp.errors import (
    BadStateError,
    ExistsError,
    InUseError,
    NotFoundError,
    UnavailableError,
    UnknownApplicationError,
    UnreachableError,
)

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage
    from tfapp.skein_calls.connection import Connection

MAX_LOOKS = 32  # masters that are asked at the same time
SHUTDOWN_DEADLINE = 15.0  # seconds for a master to end its containers and itself


class _Starting:
    """The run is about to begin: its master does not serve yet."""


_Settled = Union[Ending, MasterClient, _Starting]


class LocalEngine:
    """Runs applications as processes of this machine; see tfapp.engines.base.Engine.

    `home` is TFAPP_HOME. `bind`: the address of this machine that masters listen at. `environ`
    is the submitting user's environment; `python` runs the masters. Memory and vcores are not
    enforced; GPUs are given out.
    """

    name = "local"
    sees_home = True

    def __init__(
        self,
        home: Path,
        bind: str = "127.0.0.1",
        environ: Mapping[str, str] | None = None,
        python: str = sys.executable,
        clock: Callable[[], float] = time.time,
        hostname: str | None = None,
    ):
        self._home = Home(home.absolute())
        self._environ = dict(environ or {})
        self._hostname = hostname or socket.gethostname()
        self._clock = clock
        self._runs = Runs(self._home, bind, self._environ, python, clock, self._hostname)

    def examine(self, python: str | None = None, queue: str = "default") -> Iterator[Finding]:
        """See Engine.examine."""
        from tfapp.engines.local import doctor

        return doctor.examine(self._home.path, self._environ, python)

    # -- making --
    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """See Engine.preparing: a master starts."""
        return self._runs.preparing(self._home.app(name).run(1))

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """See Engine.options."""
        return options

    def check(self, compiled: Compiled) -> None:
        """UnavailableError for too few GPUs, for files that are not on this machine, and for
        YARN's Docker runtime."""
        from tfapp.compiler.yarn_docker import RUNTIME_TYPE

        needed = gpus_needed(compiled.job)
        if needed:
            check_enough(needed, visible_gpus(self._environ))
        for part in (compiled.spec.master, *compiled.spec.services.values()):
            if RUNTIME_TYPE in part.env:
                raise UnavailableError(
                    "run mode yarn-docker is YARN's own, and the local engine is not YARN",
                    "Set site.global.run.mode to docker.",
                )
            for file in part.files.values():
                if not file.source.startswith("file:///"):
                    raise UnavailableError(
                        f"{file.source} is not a file of this machine",
                        "The local engine ships files from local disks only.",
                    )

    def ship(self, compiled: Compiled) -> None:
        """See Engine.ship: containers see the cache."""
        from tfapp.compiler.store import store_files

        store_files(compiled.files)

    def create(self, name: str, compiled: Compiled) -> Application:
        """See Engine.create."""
        self.check(compiled)
        self._home.prepare()
        with self._home.lock(name) as held:
            app = self._home.app(name)
            if not held or app.runs():
                raise ExistsError(
                    f"there is an application {name} already",
                    f"`tfapp start {name}` runs it again, `tfapp destroy {name}` forgets it.",
                )
            try:
                run = self._make(app, Definition.of(name, compiled))
            except BaseException:
                delete_tree(app.path)
                raise
        return self._accepted(run)

    def _make(self, app: AppFolder, definition: Definition) -> RunFolder:
        delete_tree(app.path)  # what a command left that was killed in the middle of this
        with writing(app.path):
            app.path.mkdir(mode=0o700)
            write_json(app.definition, definition)
        return self._runs.launch(definition, 1)

    def start(self, name: str) -> Application:
        """See Engine.start."""
        newest = self._newest(name)
        with self._home.lock(name) as held:
            definition = Definition.read(self._home.app(name).definition)
            if definition is None:
                raise _unknown(name, self._home.names())
            if not held or not isinstance(self._settle(newest, held=True), Ending):
                raise _in_use(name)
            if definition.gpus:
                check_enough(definition.gpus, visible_gpus(self._environ))
            return self._accepted(self._runs.launch(definition, newest.number + 1))

    # -- looking --
    def find(self, name: str, run: int | None = None) -> Application:
        """See Engine.find. UnreachableError when its master lives and does not answer."""
        return self._look(self._run(name, run))

    def list(self) -> tuple[Application, ...]:
        """See Engine.list. One whose master does not answer is listed as it was accepted. All
        are asked at the same time: each such master takes seconds."""
        apps = map(self._home.app, self._home.names())
        newest = [runs[-1] for runs in (app.runs() for app in apps) if runs]
        if any(read_ending(run) is None for run in newest):
            from tfapp.skein_calls.opening import load_skein

            load_skein()
        with ThreadPoolExecutor(MAX_LOOKS) as pool:
            found = list(pool.map(self._look_or_accept, newest))
        return tuple(sorted(found, key=lambda application: application.id, reverse=True))

    def _look_or_accept(self, run: RunFolder) -> Application:
        try:
            return self._look(run)
        except UnreachableError:
            return self._application(run, read_config(run).accepted, live=True)

    def follow(self, name: str, run: int | None = None) -> Iterator[Application]:
        """See Engine.follow. The verdict comes once everything of the application has ended."""
        folder = self._run(name, run)
        settled = self._settle_started(folder)
        if isinstance(settled, MasterClient):
            for status in settled.changes():
                if status.state not in FINAL_STATES:
                    yield self._application(folder, status, live=True)
        yield self._look(folder)

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """See Engine.logs."""
        folder = self._run(name, run)
        order = [i.instance for i in read_config(folder).accepted.instances]
        return log_files(folder, order)

    def connect(self, name: str) -> Connection:
        """See Engine.connect."""
        client = self._settle_started(self._run(name, None))
        if not isinstance(client, MasterClient):
            raise BadStateError(f"{name} is not running", f"`tfapp start {name}` runs it again.")
        return client.connect()

    # -- ending --
    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """See Engine.stop. A master that does not answer is killed, with its application."""
        run = self._run(name, None)
        client = self._settle_started(run)
        if isinstance(client, MasterClient):
            if not force:
                patience = time_to_stop(read_config(run).accepted, timeout)
                self._try(client, lambda: client.ask_to_stop(message), patience)
            if client.alive:
                self._try(client, lambda: client.shut_down(message), SHUTDOWN_DEADLINE)
            if client.alive:
                client.kill(SHUTDOWN_DEADLINE)
                self._bury(run, KILLED)
        return self._look(run)

    def _try(self, client: MasterClient, call: Callable[[], None], timeout: float) -> None:
        try:
            call()
        except UnreachableError:
            client.has_ended()  # or it hangs
        else:
            client.wait_for_end(timeout)

    def destroy(self, name: str) -> None:
        """See Engine.destroy."""
        newest = self._newest(name)
        with self._home.lock(name) as held:
            if not held or not isinstance(self._settle(newest, held=True), Ending):
                raise _in_use(name)
            app = self._home.app(name)
            definition = Definition.read(app.definition)
            grave = app.path.with_name(f".{name}.{read_config(newest).application}")
            with writing(app.path):
                app.path.rename(grave)  # gone at once, however long the deletion takes
            delete_tree(grave)
            if definition is not None:
                delete_shipped(self._home.path, [definition])

    # -- inside --
    def _newest(self, name: str) -> RunFolder:
        runs = self._home.app(name).runs()
        if not runs:
            raise _unknown(name, self._home.names())
        return runs[-1]

    def _run(self, name: str, number: int | None) -> RunFolder:
        newest = self._newest(name)
        if number is None:
            return newest
        runs = {run.number: run for run in self._home.app(name).runs()}
        if number not in runs:
            raise NotFoundError(
                f"{name} has no run {number}", f"Its runs: {', '.join(map(str, runs))}."
            )
        return runs[number]

    def _settle(self, run: RunFolder, held: bool = False) -> _Settled:
        """What the run is now. `held`: the caller holds the application's lock."""
        ending = read_ending(run)
        if ending is not None:
            return ending
        config, state = read_config(run), read_state(run)
        if state is not None:
            if state.host != self._hostname:
                raise UnreachableError(
                    f"{config.name} was started on {state.host}", "Ask for it there."
                )
            client = MasterClient(run, config, state)
            if client.alive:
                return client if state.address else _Starting()
        if held:
            return self._runs.bury(run)
        with self._home.lock(config.name) as held_now:
            if held_now:
                return self._settle(run, held=True)
        if state is None:
            return _Starting()
        return verdict.master_lost(config.accepted, self._clock())  # another command buries it

    def _settle_started(self, run: RunFolder) -> Ending | MasterClient:
        settled = self._settle(run)
        if isinstance(settled, _Starting):
            name = read_config(run).name
            raise BadStateError(f"{name} is just being started", "Try again in a moment.")
        return settled

    def _bury(self, run: RunFolder, state: str) -> None:
        with self._home.lock(read_config(run).name) as held:
            if held:
                self._runs.bury(run, state)

    def _look(self, run: RunFolder) -> Application:
        settled = self._settle(run)
        if isinstance(settled, MasterClient):
            try:
                return self._application(run, settled.status(), live=True)
            except UnreachableError:
                if not settled.has_ended():
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
        )


def _unknown(name: str, known: Iterable[str]) -> UnknownApplicationError:
    match = close_match(name, known)
    hint = f"Did you mean {match}?" if match else "`tfapp list` shows all."
    return UnknownApplicationError(f"there is no application {name}", hint)


def _in_use(name: str) -> InUseError:
    return InUseError(f"{name} is running", f"`tfapp stop {name}` ends it.")
