"""An engine that plays a history written by a test, and a shell to watch the commands in."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tfapp.cli.shell import Shell
from tfapp.compiler.render import render_spec
from tfapp.compiler.store import store_files
from tfapp.contract.exit import Exit
from tfapp.contract.names import RETURNED_FILE
from tfapp.contract.status import ApplicationStatus, Cause, InstanceStatus, Verdict
from tfapp.engines.base import Application, LogFile
from tfapp.engines.checkpoint_folder import FolderCheckpoints
from tfapp.errors import ExistsError, InUseError, UnknownApplicationError
from tfapp.frozen import frozen


def instance(name: str, state: str, **more) -> InstanceStatus:
    """worker/0 in a state; its component doubles as its role."""
    component = name.partition("/")[0]
    return InstanceStatus(name, component, component, state, **more)


def status(state: str, *instances: InstanceStatus, verdict: Verdict | None = None):
    return ApplicationStatus("app", state, 1, 1.0e9, 1.0e9, instances, verdict)


def failure(instance_name: str, last_lines: str = "") -> Verdict:
    """The verdict on an application of which one instance exited with 3."""
    cause = Cause(
        instance_name, 1, "127.0.0.1", "c1", Exit(3, None, "exit", "exit code 3"), last_lines
    )
    return Verdict("FAILED", 65, f"Failed: {instance_name}: exit code 3", cause)


SUCCESS = Verdict("SUCCEEDED", 0, "Succeeded: all workers exited 0")
STOPPED = Verdict("KILLED", 66, "Stopped: a test")


class PlayedEngine:
    """Knows one application, "app". `history` is what `follow` yields; after it, it waits for
    a stop if the history has no end."""

    name = "local"
    sees_home = True
    checkpoint_home = staticmethod(lambda: "")
    closed = staticmethod(lambda url: "")
    reaches_pages = True
    stays = False

    def __init__(self, folder: Path, history: list[ApplicationStatus], tags: tuple = (), **more):
        self.folder, self.history, self.tags, self.more = folder, history, tags, more
        self.stops: list[tuple[str, bool]] = []
        self.calls: list[str] = []
        self.created: list = []
        self.ways: list[str] = []
        self._stopped = threading.Event()

    def write_log(self, name: str, text: str) -> None:
        path = self._log(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def _log(self, name: str) -> Path:
        return self.folder / name / "log"

    def _application(self, status: ApplicationStatus, name: str = "app") -> Application:
        if name != "app":
            raise UnknownApplicationError(f"there is no application {name!r}")
        live = status.verdict is None
        return Application(
            "app", "local", "application_1_0001", 1, live, status, self.tags, **self.more
        )

    def preparing(self, name):
        return contextlib.nullcontext()

    def options(self, options, package):
        return options

    def check(self, compiled):
        self.calls.append("check")
        return ()

    def rendered(self, compiled) -> str:
        return render_spec(compiled.spec)

    def ship(self, compiled) -> None:
        store_files(compiled.files)

    def find_first(self) -> Application:
        """As it is when its history begins."""
        return self._application(self.history[0])

    def create(self, name: str, compiled) -> Application:
        if name == "taken":
            raise ExistsError("taken exists already")
        self.created.append((name, compiled))
        return self._application(self.history[0])

    def start(self, name: str) -> Application:
        self.calls.append("start")
        return self._application(self.history[0], name)

    def find(self, name: str, run: int | None = None) -> Application:
        return self._application(self.history[-1], name)

    def list(self) -> tuple[Application, ...]:
        return (self._application(self.history[-1]),)

    def follow(
        self, name: str, run: int | None = None, left: object = None
    ) -> Iterator[Application]:
        for item in self.history:
            yield self._application(item, name)
        if self.history[-1].verdict is None:
            assert self._stopped.wait(60), "nobody stopped the application"
            yield self._application(
                dataclasses.replace(self.history[-1], state="KILLED", verdict=STOPPED)
            )

    def logs(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        return self._files("log")

    def returned(self, name: str, run: int | None = None) -> tuple[LogFile, ...]:
        return self._files(RETURNED_FILE)

    def _files(self, name: str) -> tuple[LogFile, ...]:
        paths = sorted(self.folder.glob(f"**/{name}"))
        return tuple(LogFile(p.parent.relative_to(self.folder).as_posix(), p) for p in paths)

    def checkpoints(self, name: str, beside: str = ""):
        """Those in `folder`/checkpoints."""
        self._application(self.history[-1], name)
        return contextlib.nullcontext(FolderCheckpoints(self.folder / f"checkpoints{beside}"))

    @contextlib.contextmanager
    def reach(self, name: str, instance: str, address: str):
        """With `ways`, through the next of them."""
        if not self.ways:
            yield address
            return
        way = self.ways.pop(0)
        self.calls.append(f"open {way} to {instance} {address}")
        yield way
        self.calls.append(f"close {way}")

    def stop(self, name: str, message: str, force: bool = False, timeout: float | None = None):
        self.stops.append((message, force))
        self._stopped.set()
        ended = dataclasses.replace(self.history[-1], state="KILLED", verdict=STOPPED)
        return self._application(ended, name)

    def destroy(self, name: str) -> None:
        if self._application(self.history[-1], name).live:
            raise InUseError("app is running")
        self.calls.append("destroy")


class Output(io.TextIOWrapper):
    """A stream to read back."""

    def __init__(self, terminal: bool = False):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


@frozen
class PlayedShell(Shell):
    """A shell whose only engine is a played one."""

    played: PlayedEngine | None = None

    def engine(self, name: str | None = None, places=None):
        assert name == "local"
        return self.played


def shell(tmp_path: Path, engine: PlayedEngine | None = None, **more) -> PlayedShell:
    """A shell of user "ada" with a home of its own."""
    values = {
        "out": Output(),
        "err": Output(),
        "environ": {},
        "cwd": tmp_path,
        "home": tmp_path / "home",
        "user": "ada",
        "python": sys.executable,
        "played": engine,
        **more,
    }
    return PlayedShell(**values)
