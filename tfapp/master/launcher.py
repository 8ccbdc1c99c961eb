"""The interfaces that an engine gives its master: a launcher of containers, and a record of the
run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tfapp.contract.exit import Exit
from tfapp.contract.names import attempt_of
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.master.ending import Ending, signal_name


class SupersededError(UnavailableError):
    """Another master has the run: this one was taken for lost, and may do nothing any more."""


_EACH_ATTEMPT = 10_000  # numbers of containers


class Told(Protocol):
    """Receives what a launcher has to say about one container. Called in the master's event
    loop."""

    def granted(self, host: str) -> bool:
        """The container is about to run on `host`. Returns False when it was killed meanwhile: then
        it must not run."""

    def waits(self, text: str, kind: str = "") -> None:
        """Why the container has not begun yet: "waiting for 2 GPUs"; "" when the reason is gone.
        `kind`: QUEUE, QUOTA or NODES of `contract.names` where a scheduler holds it back, GRANTED
        from the moment on at which it has its place. May be called at any time before
        `granted`."""


@frozen
class Task:
    """One container to run, or the master script. `service` is Skein's Service or Master message:
    its files, script and resources. `environment` is what every engine's container gets: what
    the spec and `add_container` give, and Skein's own variables. The launcher adds those that
    tell of the place: NM_HOST, LOCAL_DIRS, LOG_DIRS, PWD, CUDA_VISIBLE_DEVICES."""

    id: str  # "container_1700000000000_0001_01_000002", never given twice
    name: str  # Skein's id of it, "worker_1"; "" for the master script
    instance: str  # "worker/1"; "" for the master script
    service: Any
    environment: Mapping[str, str]


@frozen
class Ended:
    """The end of a container. `code`: its exit code, or minus the number of the signal that killed
    it; None where it is unknown. `message`: the engine's words, "" where the code is enough.
    `reason`: one of tfapp.contract.exit.REASONS, "" where the engine knows none. `last_lines`: of
    its log, where the launcher has it."""

    code: int | None
    message: str = ""
    reason: str = ""
    last_lines: str = ""

    @property
    def exit(self) -> Exit:
        if self.code is None:
            return Exit(None, None, self.reason or "lost", self.message)
        if self.code < 0:
            return Exit(None, -self.code, "signal", f"killed by {signal_name(-self.code)}")
        return Exit(self.code, None, "exit", f"exit code {self.code}")


class Launcher(Protocol):
    """Runs containers somewhere. All methods are called in the master's event loop."""

    async def run(self, task: Task, told: Told) -> Ended:
        """Runs one container until it has ended and nothing of it lives; on a machine that is
        lost (reason "node-lost") it may live on: its runner's fence ends it, and the coordinator
        waits for that. Calls `told.granted` once, right before its script begins. May wait for
        what the container needs, and tells what that is. OSError or TfappError when it cannot be
        started."""

    async def kill(self, id: str) -> None:
        """Ends a container whose `run` goes on, or which still waits. `run` returns when it is
        done."""

    async def close(self) -> None:
        """Ends everything that `run` has started, and nothing else. `run` starts nothing more.
        Returns when all processes have ended."""


class KeepingLauncher(Launcher, Protocol):
    """One whose containers outlive the master: `run` of the next one waits for a container that was
    started already."""

    def knows(self, id: str) -> bool:
        """Whether a container was started, by this master or one before it, and its end is not
        noted."""

    def noted(self, id: str) -> None:
        """The end of a container is written down: no other master has to learn of it."""


class Record(Protocol):
    """The record of a run, which its master writes. The methods are called in a thread of its own,
    in order. TfappError if nothing can be written; SupersededError if another master does."""

    def serving(self, address: str) -> None:
        """Clients can connect to `address` (host:port) from now on."""

    def published(self, status: bytes) -> None:
        """The coordinator has published `status`, the JSON of an ApplicationStatus. Called at most
        once a second, with the last of several."""

    def ended(self, ending: Ending) -> None:
        """All processes of the run have ended, and its master is about to exit."""


def container_number(number: int, id: str) -> int:
    """A number for container `number` of a service that no other one of it has, of any master.
    Later ones have larger numbers."""
    return (attempt_of(id) - 1) * _EACH_ATTEMPT + number


def container_id(application: str, number: int, attempt: int = 1) -> str:
    """The id YARN would give to the application's container `number`; 1 is the master's. `attempt`:
    the number of the master."""
    return f"container_{application.partition('_')[2]}_{attempt:02d}_{number:06d}"
