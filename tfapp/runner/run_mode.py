"""Run modes: programs run as processes of the container, which is here, or in a Docker image."""

from __future__ import annotations

import dataclasses
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tfapp import processes
from tfapp.contract.exit import Exit
from tfapp.contract.names import ENV_IMAGE_DIR, ENV_SESSION
from tfapp.contract.sessions import Welcome
from tfapp.runner.cgroup import Group
from tfapp.runner.container import Container
from tfapp.runner.program import RunningProgram, StartError
from tfapp.runner.sessions import Sessions, kill_marked
from tfapp.script import Context, Executed, Handle, Program, ProgramMissingError, ScriptError
from tfapp.temporary import TemporaryFolder


class Running(Handle, Protocol):
    """A started program, in the hands of the runner."""

    container: str  # Docker's id of its container, "" without
    seconds: float  # how long it ran, once it has ended
    remains: str  # words on what lives after its end, to be added to those on its end
    group: Group | None  # of its container, where no other is in it

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
        """Waits until the program ends by itself or is killed, and all that it has started too.
        Afterwards none of them lives, or `remains` names those that do: at SIGKILL a process in
        uninterruptible sleep ends only when its disk answers, which is not waited for."""

    def last_lines(self) -> str:
        """The end of the output so far, without secrets."""


class RunMode(Protocol):
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

    def session(self, welcome: Welcome) -> int:
        """Lets a command run beside the program, with its environment and in its working folder.
        The port at which it can be had. SessionError."""

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


class ProcessMode:
    """Run mode local: programs are processes of the container."""

    patience = 0.0
    preparing = ""

    def __init__(self, container: Container):
        self._secrets = container.private.redact
        self._program: RunningProgram | None = None
        self._sessions = Sessions(over=_clear_up)
        self._env: Mapping[str, str] = {}  # of the program
        self._folder = Path()  # too
        self._temporary: TemporaryFolder | None = None

    def prepare(self) -> None:
        """Nothing is needed."""

    def start(self, program: Program, context: Context) -> RunningProgram:
        """See RunMode.start. The program has a TMPDIR of its own: a killed program leaves temporary
        files behind."""
        self._delete_temporary()
        env = {**context.env, **self._make_temporary(context), **program.env}
        if program.entry_point:
            raise StartError("only a Docker engine tells the image's own command: write it out")
        image_dir = context.env.get(ENV_IMAGE_DIR, "") if program.of_image else ""
        folder = program.cwd or Path(image_dir or context.work_dir)
        self._env, self._folder = env, folder
        self._program = RunningProgram(
            program.argv, env, folder, self._secrets, apart=self._sessions.pids
        )
        return self._program

    def session(self, welcome: Welcome) -> int:
        env = {**self._env, ENV_SESSION: uuid.uuid4().hex}
        return self._sessions.begin(dataclasses.replace(welcome, env=env, folder=str(self._folder)))

    def execute(self, context: Context, argv: Sequence[str], limit: float) -> Executed:
        return execute(context, argv, limit)

    def kill_all(self) -> None:
        """Ends sessions too: what they run is not in this process's session."""
        program = self._program
        processes.kill_left_behind(processes.KILL_LIMIT, spare=program.pid if program else 0)
        self._delete_temporary()

    def close(self) -> None:
        self.kill_all()

    def _make_temporary(self, context: Context) -> dict[str, str]:
        try:
            self._temporary = TemporaryFolder(context.env.get("TMPDIR"))
        except OSError:
            return {}  # the program does not need one, perhaps
        return {"TMPDIR": str(self._temporary.path)}

    def _delete_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.delete()
            self._temporary = None


def execute(context: Context, argv: Sequence[str], limit: float) -> Executed:
    try:
        done = subprocess.run(
            argv,
            env=dict(context.env),
            cwd=context.work_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except OSError as error:
        raise ProgramMissingError(f"{argv[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"{argv[0]} has not answered within {limit:g} s") from error
    code = done.returncode if done.returncode >= 0 else None
    return Executed(code, done.stdout, done.stderr)


def _clear_up(session: Welcome) -> None:
    """Its process ends all that it has started, unless it is killed."""
    kill_marked({ENV_SESSION: session.env[ENV_SESSION]})
