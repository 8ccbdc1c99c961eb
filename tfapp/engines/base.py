"""The interface of engines: an engine runs a compiled application, finds it again, and ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage
    from tfapp.problems import Problem
    from tfapp.protocol.connection import Connection

# Seconds beyond the grace of programs until their application must have ended: the runners report,
# and the engine clears up.
STOP_MARGIN = 30.0

DAMAGED = "DAMAGED"  # the state of an application whose record cannot be read


@frozen
class Link:
    """Something about an application that a browser can be pointed at. `what`: "page" or "log";
    `instance`: whose it is, "" for the application's own."""

    instance: str
    what: str
    address: str


@frozen
class Application:
    """One application that an engine knows: its newest run, or the one that was asked for."""

    name: str
    engine: str
    id: str  # application_<start time ms>_<run, 4 digits>
    run: int  # 1 for `create`, one more for each `start`
    live: bool
    status: ApplicationStatus  # the coordinator's last word, or the verdict
    tags: tuple[str, ...] = ()  # the user's, sorted
    links: tuple[Link, ...] = ()
    waits: str = ""  # for what, in the engine's words: before anything runs, or for the engine
    logs: str = ""  # the folder of this machine with its logs, or with copies of them


@frozen
class LogFile:
    """One file of a run's logs. `instance` is "worker/0", or "coordinator", or "master".
    `missing`: why it cannot be had now; then `path` has what was had before, if anything."""

    instance: str
    path: Path
    missing: str = ""


@frozen
class StoredFile:
    """A file of an application's checkpoint folder. `path`: below the folder, with "/"; `size`: in
    bytes."""

    path: str
    size: int


class Checkpoints(Protocol):
    """An application's checkpoint folder, to be read."""

    place: str  # the folder, as messages name it

    def files(self, path: str) -> tuple[StoredFile, ...]:
        """The file `path`, or all files below the folder `path`, sorted; "" for the whole folder.
        `path` is relative, without "..". NotFoundError when there is nothing of this name. Links to
        folders are not followed."""

    def copy(self, path: str, folder: Path) -> None:
        """Copies what `files(path)` lists into the folder `folder`, which is empty and here, each
        file to its own `path` below it. A file that has gone in between is left out."""


class Engine(Protocol):
    """All methods raise TfappError and nothing else on purpose. `run` = None: the newest."""

    name: str
    sees_home: bool  # whether the containers see the files under TFAPP_HOME
    run_modes: frozenset[str]  # those of site.global.run.mode that it has
    stays: bool  # whether applications end with the process that launched them

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """Checks the things that it needs around it; raises nothing. With `python`, also whether
        that interpreter starts where containers run. `options`: values of the flags of
        tfapp.engines.engine_options, by name."""

    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """While it is open, what `create(name, ...)` would wait for gets ready, beside the
        caller's own work. What `create` did not take is gone when it is closed."""

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options that compile `package` for this engine."""

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """Refuses (UnavailableError, InvalidPackageError) what this engine can never run, before
        anything is made. Returns warnings that the compiler has not given. May say already that
        the name is taken (ExistsError)."""

    def rendered(self, compiled: Compiled) -> str:
        """What `create` submits, as YAML; no credentials are in it."""

    def ship(self, compiled: Compiled) -> None:
        """Brings the application's files to where its containers get them from; those that are
        there already cost nothing. UnavailableError when that is impossible."""

    def create(self, name: str, compiled: Compiled) -> Application:
        """Makes and launches run 1. Returns as soon as the master has the application.
        ExistsError when `name` is known; nothing half-made remains on any failure."""

    def start(self, name: str) -> Application:
        """Launches the next run of a stopped or finished application, same definition.
        InUseError when it runs."""

    def find(self, name: str, run: int | None = None) -> Application:
        """UnknownApplicationError when there is none. Never hangs: a dead master is reported
        as a FAILED verdict that says so."""

    def list(self) -> tuple[Application, ...]:
        """All applications, newest first."""

    def follow(self, name: str, run: int | None = None) -> Iterator[Application]:
        """Yields at once and then at each change, until the final verdict was yielded."""

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """The logs that exist now, instances first, in job order."""

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """The records of what functions returned (`tfapp.program.returned`), in job order: of
        each instance that of the present generation, if its function returned something there and
        its program has not failed since. Of an instance whose record may be on a node that is
        lost, `missing` says so. Right after the end it may wait, for a minute at most, until they
        can be had."""

    def checkpoints(self, name: str) -> contextlib.AbstractContextManager[Checkpoints]:
        """The checkpoint folder of an application, running or ended, as long as this is open.
        NotFoundError where it has none that lasts, UnavailableError where it cannot be read from
        here."""

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        """What stands for `address`, a URL that `instance` of a running application exports, on
        this machine, as long as this is open: the same where it is reached directly.
        UnavailableError where it cannot be reached."""

    def connect(self, name: str) -> Connection:
        """A connection to the master of a running application. The caller closes it. BadStateError
        when it does not run, UnreachableError when its master does not answer."""

    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """Ends a running application and waits until it has ended; one that is not running is
        returned as it is. May be called twice. `timeout`: seconds for an end with grace, by
        default its grace and STOP_MARGIN; then it is as `force`: without grace."""

    def destroy(self, name: str) -> None:
        """Forgets an application and deletes its logs, never the user's checkpoints.
        InUseError when it runs."""


@runtime_checkable
class RunsInSession(Protocol):
    """An engine that runs applications in a session of this process."""

    def use(self, session: Any) -> None:
        """Runs what is made from now on there. UsageError for a session that cannot be meant."""

    def leave_slot(self) -> None:
        """Of what is made from now on, programs are fed from the session, which needs a slot."""


def time_to_stop(status: ApplicationStatus, timeout: float | None) -> float:
    """Seconds that `Engine.stop` with this `timeout` waits for an end with grace."""
    return status.stop_grace + STOP_MARGIN if timeout is None else timeout


def check_run_modes(engine: Engine, compiled: Compiled) -> None:
    """UnavailableError for a run mode that the engine does not have."""
    from tfapp.compiler.yarn_docker import run_modes

    for mode in sorted(run_modes(compiled.spec, compiled.job) - engine.run_modes):
        raise UnavailableError(
            f"the {engine.name} engine has no run mode {mode}",
            f"Set site.global.run.mode to {' or '.join(sorted(engine.run_modes))}.",
        )
