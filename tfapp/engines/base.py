"""The interface of engines: an engine runs compiled applications, finds them again, and ends
them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """A web page about an application. `what`: "page" or "log". `instance`: "" for a page of the
    whole application."""

    instance: str
    what: str
    address: str


@frozen
class Application:
    """An application that an engine knows: its newest run, or the requested one."""

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
    """A file of the logs of a run. `instance`: "worker/0", "coordinator" or "master". `missing`:
    why it is not available now; `path` then has an earlier copy, if there is one."""

    instance: str
    path: Path
    missing: str = ""


@frozen
class StoredFile:
    """A file of a checkpoint folder. `path`: relative to the folder, with "/". `size`: in bytes."""

    path: str
    size: int


class Checkpoints(Protocol):
    """The checkpoint folder of an application, for reading."""

    place: str  # the folder, as messages name it

    def files(self, path: str) -> tuple[StoredFile, ...]:
        """The file `path`, or all files below the folder `path`, sorted; "" for the whole folder.
        `path` is relative, without "..". NotFoundError if it does not exist. Links to folders are
        not followed."""

    def copy(self, path: str, folder: Path) -> None:
        """Copies the files of `files(path)` into the empty local folder `folder`, each to its own
        `path`. A file that disappears meanwhile is left out."""


class Engine(Protocol):
    """Methods raise only TfappError deliberately. `run` = None means the newest run."""

    name: str
    sees_home: bool  # whether the containers see the files under TFAPP_HOME
    run_modes: frozenset[str]  # those of site.global.run.mode that it has
    stays: bool  # whether applications end with the process that launched them

    @property
    def reaches_pages(self) -> bool:
        """Whether a browser of this machine gets to what instances export by its own address; else
        by `reach` alone."""

    def examine(
        self, python: str | None = None, options: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """Checks the environment of the engine for `tfapp doctor`. Never raises. `python`: also
        checks whether this interpreter starts where containers run. `options`: values of
        tfapp.engines.engine_options, by name."""

    def preparing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A context manager: while it is open, the engine prepares `create(name, ...)` in the
        background. What `create` has not used is discarded at the end."""

    def checkpoint_home(self) -> str:
        """The URL of the folder for the checkpoints of applications that name none, which all
        containers see. "" where there is none. That of an engine that sees_home is in
        TFAPP_HOME."""

    def closed(self, url: str) -> str:
        """Why programs in containers open no files in the folder `url`, where that is known before
        a start; else ""."""

    def options(self, options: CompileOptions, package: AppPackage) -> CompileOptions:
        """The options with which `package` is compiled for this engine."""

    def check(self, compiled: Compiled) -> Sequence[Problem]:
        """Refuses, before anything is created, an application that this engine can never run
        (UnavailableError, InvalidPackageError). Returns warnings in addition to those of the
        compiler. ExistsError if the name is taken."""

    def rendered(self, compiled: Compiled) -> str:
        """What `create` would submit, as YAML without credentials."""

    def ship(self, compiled: Compiled) -> None:
        """Uploads the files of the application to where its containers get them from. Files that
        are there already are not uploaded again. UnavailableError if it fails."""

    def create(self, name: str, compiled: Compiled) -> Application:
        """Creates an application and launches its run 1. Returns as soon as the master has accepted
        it. ExistsError if `name` is taken. On any failure nothing is left behind."""

    def start(self, name: str) -> Application:
        """Launches the next run of an application that has ended, with the same definition.
        InUseError if it runs."""

    def find(self, name: str, run: int | None = None) -> Application:
        """The application. UnknownApplicationError if there is none. Never blocks: an application
        whose master has died gets a FAILED verdict that says so, and one whose master does not
        answer is as it was known last, if it is."""

    def list(self) -> tuple[Application, ...]:
        """All applications, the newest first."""

    def follow(
        self, name: str, run: int | None = None, left: Callable[[], bool] = lambda: False
    ) -> Iterator[Application]:
        """Yields the application at once, and then at each change, until it has a verdict, or a few
        seconds after `left` is true."""

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """The logs that exist now: those of instances first, in job order."""

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        """The records of return values (`tfapp.program.returned`), in job order. An instance has
        one if its function has returned something in the present generation and its program has not
        failed since. `missing` is set if the record may be on a lost node. Just after the end the
        call may take up to a minute, until the records are available."""

    def checkpoints(
        self, name: str, beside: str = ""
    ) -> contextlib.AbstractContextManager[Checkpoints]:
        """A context manager: the checkpoint folder of an application, running or ended. `beside`:
        another folder, whose path is that of the checkpoint folder with this at its end.
        NotFoundError if it has none that outlives its containers, UnavailableError if it cannot be
        read from here."""

    def reach(
        self, name: str, instance: str, address: str
    ) -> contextlib.AbstractContextManager[str]:
        """A context manager: a URL on this machine for `address`, a URL that `instance` of a
        running application exports. It is `address` itself if that can be reached directly.
        UnavailableError if it cannot be reached."""

    def connect(self, name: str) -> Connection:
        """A connection to the master of a running application; the caller closes it. BadStateError
        if the application does not run, UnreachableError if its master does not answer."""

    def stop(
        self, name: str, message: str, force: bool = False, timeout: float | None = None
    ) -> Application:
        """Stops a running application and waits for its end; another one is returned unchanged. May
        be called twice. `timeout`: seconds for an end with grace; default: the grace plus
        STOP_MARGIN. After that, and with `force`, the application is ended without grace."""

    def destroy(self, name: str) -> None:
        """Deletes the record and the logs of an application, never the user's checkpoints.
        InUseError if it runs."""


@runtime_checkable
class RunsInSession(Protocol):
    """An engine that runs applications in a session of this process."""

    def use(self, session: Any) -> None:
        """Uses `session` for applications that are created from now on. UsageError for an
        unsuitable session."""

    def leave_slot(self) -> None:
        """For applications that are created from now on: leave a slot free, for tasks that feed the
        programs."""


def time_to_stop(status: ApplicationStatus, timeout: float | None) -> float:
    """Seconds that `Engine.stop` waits for an end with grace, for its argument `timeout`."""
    return status.stop_grace + STOP_MARGIN if timeout is None else timeout


def check_run_modes(engine: Engine, compiled: Compiled) -> None:
    """UnavailableError for a run mode that the engine does not support."""
    components = compiled.plan.components.values() if compiled.plan is not None else ()
    for mode in sorted({each.own.run_mode for each in components} - engine.run_modes):
        raise UnavailableError(
            f"the {engine.name} engine has no run mode {mode}",
            f"Set site.global.run.mode to {' or '.join(sorted(engine.run_modes))}.",
        )


def check_files_are_local(compiled: Compiled) -> None:
    """UnavailableError for a file of the spec that is not on this machine."""
    for part in (compiled.spec.master, *compiled.spec.services.values()):
        for file in part.files.values():
            if not file.source.startswith("file:///"):
                raise UnavailableError(
                    f"{file.source} is not a file of this machine",
                    "This engine ships files from local disks only.",
                )
