"""Run mode docker: programs run in an image, beside a runner that does not."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tfapp import threads
from tfapp.contract.job import Docker, Mount
from tfapp.contract.names import ENV_SESSION, RUNTIME_DIR
from tfapp.contract.sessions import Welcome
from tfapp.runner import context as contexts
from tfapp.runner.container import Container, local_path
from tfapp.runner.docker import creation, engine, pull
from tfapp.runner.docker.creation import ConfigError, HostFacts, User
from tfapp.runner.docker.engine import DockerEngine, EngineError, Image, patiently
from tfapp.runner.docker.guard import Guard
from tfapp.runner.docker.ownership import of_container, sweep
from tfapp.runner.docker.program import KILL_LIMIT, DockerProgram
from tfapp.runner.program import StartError
from tfapp.runner.sessions import Sessions, kill_marked
from tfapp.script import Context, Executed, Program, ProgramMissingError, ScriptError

# Files and folders of Hadoop's client on a machine.
_HADOOP_PLACES = ("HADOOP_CONF_DIR", "HADOOP_TOKEN_FILE_LOCATION")
_RESTART_LIMIT = 30.0  # seconds that an engine may be away between two programs


class DockerMode:
    def __init__(
        self,
        container: Container,
        docker: Docker,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        with contextlib.suppress(EngineError):  # `prepare` will say so
            engine.load()
        self._container = container
        self._docker = docker
        self._say = say
        self._clock = clock
        self._secrets = container.private.redact
        self._engine: DockerEngine | None = None
        self._guard: Guard | None = None
        self._facts: HostFacts | None = None
        self._program: DockerProgram | None = None  # the last one that was started
        self._sessions: Sessions | None = None
        self._running: set[DockerProgram] = set()
        self._pull: pull.PullProgress | None = None  # while there is one
        self._image = Image()

    @property
    def patience(self) -> float:
        return self._docker.pull_timeout

    @property
    def preparing(self) -> str:
        progress = self._pull
        return progress.words if progress is not None else ""

    def prepare(self) -> None:
        environ = self._container.inherited_environ()
        if self._docker.host:
            environ["DOCKER_HOST"] = self._docker.host
        try:
            gpus = creation.granted_gpus(self._container.component, environ)
            # In a container that replaces another one, the engine was there a moment ago.
            patience = _RESTART_LIMIT if self._container.generation > 1 else 0.0
            self._engine = found = patiently(lambda: DockerEngine(environ), patience)
            cpus = int(found.info()["NCPU"])
            sweep(found)
            self._guard = Guard(environ)
            self._sessions = Sessions(environ, _clear_up)
            self._facts = HostFacts(_user(), self._guard.runner, cpus, gpus)
            login, self._pull = self._login(), pull.PullProgress(self._docker.image)
            pull.ensure_image(found, self._docker, login, self._pull, self._say, self._clock)
            self._image = found.image(self._docker.image)
        except (EngineError, ConfigError, OSError) as error:
            raise ScriptError(str(error)) from error
        finally:
            self._pull = None

    def start(self, program: Program, context: Context) -> DockerProgram:
        env, argv = self._environment(context, program.env), program.argv
        if program.entry_point:
            argv = (*self._image.entry_point, *(argv or self._image.arguments))
            if not argv:
                raise StartError(f"the image {self._docker.image} has no command of its own")
        folder = Path(self._image.folder) if program.of_image else context.work_dir
        self._program = self._launch(context, argv, env, program.cwd or folder)
        return self._program

    def session(self, welcome: Welcome) -> int:
        sessions, program = self._sessions, self._program
        assert sessions and program, "its program runs"
        env = {ENV_SESSION: uuid.uuid4().hex}
        return sessions.begin(dataclasses.replace(welcome, env=env, container=program.container))

    def execute(self, context: Context, argv: Sequence[str], limit: float) -> Executed:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                program = self._launch(
                    context,
                    argv,
                    self._environment(context, {}),
                    context.work_dir,
                    output.fileno(),
                    errors.fileno(),
                )
            except StartError as error:
                raise ScriptError(str(error)) from error
            call_off = threads.after(limit, "tfapp-alarm", program.kill)
            exit = program.wait()
            call_off()
            if program.seconds >= limit:
                raise ScriptError(f"{argv[0]} has not answered within {limit:g} s")
            if exit.reason == "start":
                raise ProgramMissingError(exit.text)
            if exit.reason == "lost":
                raise ScriptError(exit.text)
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return Executed(exit.code, *texts)

    def kill_all(self) -> None:
        """See RunMode.kill_all. The guard, which stays, removes what a dead program leaves."""
        for program in tuple(self._running):
            program.kill()

    def close(self) -> None:
        """See RunMode.close. What cannot be seen to end is the guard's."""
        self.kill_all()
        ended = [program.wait_ended(KILL_LIMIT) for program in tuple(self._running)]
        if self._guard is not None and all(ended):
            self._guard.close()
        if self._engine is not None:
            self._engine.close()

    def _launch(
        self,
        context: Context,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        sink: int = 1,
        errors: int | None = None,
    ) -> DockerProgram:
        docker, guard, facts = self._engine, self._guard, self._facts
        assert docker and guard and facts, "nothing is started before the preparation"
        try:
            mounts = self._mounts(context)
        except ConfigError as error:
            raise StartError(str(error)) from error
        config = creation.container_config(context, self._docker, facts, argv, env, cwd, mounts)
        try:
            patiently(docker.ping, _RESTART_LIMIT)
            with guard.expecting() as expected:
                program = DockerProgram(docker, config, self._secrets, sink, errors, self._clock)
                expected.process = program.process
        except EngineError as error:
            raise StartError(str(error)) from error
        except StartError as error:
            raise StartError(f"{error}{_about(facts.gpus)}") from error
        self._running.add(program)
        return program

    def _environment(self, context: Context, given: Mapping[str, str]) -> dict[str, str]:
        container = self._container
        own = (*given, *container.private.env.get(context.component.name, ()))
        assert self._facts is not None
        env = {**context.env, **given}
        made = creation.environment(env, own, self._facts.gpus, context.work_dir)
        if container.storage_dir is not None and env.get("HADOOP_CONF_DIR"):
            made.setdefault("HADOOP_CONF_DIR", env["HADOOP_CONF_DIR"])
        variables = contexts.startup_variables(container, self._image.environ)
        made.update({name: text for name, text in variables.items() if name not in own})
        return made

    def _mounts(self, context: Context) -> tuple[Mount, ...]:
        checkpoints = local_path(context.checkpoint_dir)
        if checkpoints:
            try:
                os.makedirs(checkpoints, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"{checkpoints} cannot be made: {error.strerror}") from error
        mounts = (*creation.own_mounts(context), *self._runtime_mounts(), *self._docker.mounts)
        return creation.check_mounts(mounts)

    def _runtime_mounts(self) -> Iterator[Mount]:
        """What tfapp's part of a program needs of this machine."""
        container = self._container
        names = _HADOOP_PLACES if container.storage_dir is not None else ()
        settings = (container.environ.get(name) for name in names)
        runtime = container.root / RUNTIME_DIR
        for path in map(str, filter(None, (runtime, container.storage_dir, *settings))):
            if os.path.exists(path):
                yield Mount(path, path, True)

    def _login(self) -> Mapping[str, str] | None:
        alias = self._docker.credential
        if not alias:
            return None
        return pull.login_of(self._container.private.env[self._container.component.name][alias])


def _clear_up(session: Welcome) -> None:
    """Whatever has ended the session's process, what it ran in the container goes."""
    kill_marked(session.env, partial(of_container, container=session.container))


def _about(gpus: Sequence[str]) -> str:
    if not gpus:
        return ""
    return f"; for GPU {', '.join(gpus)} the engine needs the NVIDIA Container Toolkit"


def _user() -> User:
    """This process's own: the kernel shares a held port with the same user only."""
    return User(os.geteuid(), os.getegid(), tuple(sorted(os.getgroups())))
