"""The interface of run modes: programs run as processes of the container, or in a Docker image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tfapp.contract.exit import Exit
from tfapp.runner.container import Container
from tfapp.runner.process_mode import ProcessMode
from tfapp.script import Context, Executed, Handle, Program


class Running(Handle, Protocol):
    """A started program, in the hands of the runner."""

    container: str  # Docker's id of its container, "" without
    seconds: float  # how long it ran, once it has ended

    @property
    def alive(self) -> bool:
        """Whether the program may still be there. Asks nobody, and never waits."""

    def stopped(self) -> tuple[str, ...]:
        """The processes of the program that were stopped, each as the beginning of a sentence:
        "process 17 was stopped (SIGSTOP)". Asks nobody, and never waits."""

    def pids(self) -> tuple[int, ...]:
        """The processes of the program that lived when `stopped` was asked last, the first one
        before that, as this machine numbers them. Costs nothing."""

    @property
    def written(self) -> int:
        """Bytes of output so far."""

    def kill(self) -> None:
        """Sends SIGKILL to the program and all that it has started; `wait` waits for it."""

    def wait(self) -> Exit:
        """Waits until the program ends by itself or is killed, and all of its kind are gone."""

    def last_lines(self) -> str:
        """The end of the output so far, without secrets."""


class RunMode(Protocol):
    """Starts the programs of one instance."""

    def prepare(self) -> None:
        """Gets ready, which may take as long as `patience`. ScriptError when no program can run
        here."""

    @property
    def patience(self) -> float:
        """Seconds that `prepare` may take."""

    @property
    def preparing(self) -> str:
        """The present work of `prepare`, where that takes long: "pulling image mine:1". Else ""."""

    def start(self, program: Program, context: Context) -> Running:
        """StartError when it cannot be started."""

    def execute(self, context: Context, argv: Sequence[str], limit: float) -> Executed:
        """Runs something short to its end where the program will run; see Context.execute."""

    def kill_all(self) -> None:
        """Ends every program and all that it has started, for a runner that is about to end."""

    def close(self) -> None:
        """Ends every program, and lets go of all that `prepare` took."""


def open_mode(container: Container, say: Callable[[str], None]) -> RunMode:
    """The run mode of the container's component."""
    if container.component.docker is None:
        return ProcessMode(container)
    from tfapp.runner.docker.mode import DockerMode

    return DockerMode(container, container.component.docker, say)
