"""What an engine is: it runs a compiled application, finds it again, and ends it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tfapp.contract.status import ApplicationStatus

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled, CompileOptions
    from tfapp.engines.diagnosis import Finding
    from tfapp.package.model import AppPackage
    from tfapp.skein_calls.connection import Connection

# Seconds beyond the grace of programs until their application must have ended: the runners report,
# and the engine clears up.
STOP_MARGIN = 30.0


@dataclasses.dataclass(frozen=True)
class Link:
    """Something about an application that a browser can be pointed at. `what`: "page" or "log";
    `instance`: whose it is, "" for the application's own."""

    instance: str
    what: str
    address: str


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
class LogFile:
    """One log of a run. `instance` is "worker/0", or "coordinator", or "master". `missing`: why
    it cannot be had now; then `path` has what was had before, if anything."""

    instance: str
    path: Path
    missing: str = ""


class Engine(Protocol):
    """All methods raise TfappError and nothing else on purpose. `run` = None: the newest."""

    name: str
    sees_home: bool  # whether the containers see the files under TFAPP_HOME

    def examine(self, python: str | None = None, queue: str = "default") -> Iterator[Finding]:
        """What it needs around it, each thing checked; raises nothing. With `python`, also
        whether that interpreter starts where containers run; in `queue`, where there is one."""

    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """While it is open, what `create(name, ...)` would wait for gets ready, beside the
        caller's own work. What `create` did not take is gone when it is closed."""

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """What to compile `package` with, so that it runs on this engine."""

    def check(self, compiled: Compiled) -> None:
        """Refuses (UnavailableError) what this engine can never run, before anything is made.
        May say already that the name is taken (ExistsError)."""

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

    def connect(self, name: str) -> Connection:
        """A connection to the master of a running application, for who closes it. BadStateError
        when it does not run, UnreachableError when its master is not to be reached."""

    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """Ends a running application and waits until it has ended; one that is not running is
        returned as it is. May be called twice. `timeout`: seconds for an end with grace, by
        default its grace and STOP_MARGIN; then it is as `force`: without grace."""

    def destroy(self, name: str) -> None:
        """Forgets an application and deletes its logs, never the user's checkpoints.
        InUseError when it runs."""


def time_to_stop(status: ApplicationStatus, timeout: float | None) -> float:
    """Seconds that `Engine.stop` with this `timeout` waits for an end with grace."""
    return status.stop_grace + STOP_MARGIN if timeout is None else timeout
