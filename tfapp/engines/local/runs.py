"""Making runs, and clearing up after those whose master died."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

from tfapp.contract.states import FAILED
from tfapp.engines.definition import Definition
from tfapp.engines.disk import delete_tree, make_private, write_atomically, write_json, writing
from tfapp.engines.local import docker_leftovers, verdict
from tfapp.engines.local.container_env import inherited, yarn_container_id
from tfapp.engines.local.gpus import visible_gpus
from tfapp.engines.local.launch import Launch
from tfapp.engines.local.layout import Home, RunFolder
from tfapp.engines.local.process_tree import (
    Process,
    is_guard,
    kill_all,
    with_environment,
    working_under,
)
from tfapp.engines.local.state import Ending, MasterState, RunConfig, read_config, read_ending
from tfapp.errors import UnavailableError

KILL_DEADLINE = 10.0  # seconds for killed processes to be gone


class Runs:
    """Makes the runs of all applications under `home`. `clock`: seconds since 1970."""

    def __init__(
        self,
        home: Home,
        bind: str,
        environ: Mapping[str, str],
        python: str,
        clock: Callable[[], float],
        hostname: str,
    ):
        self._home = home
        self._bind = bind
        self._environ = environ
        self._python = python
        self._clock = clock
        self._hostname = hostname
        self._prepared: Launch | None = None

    @contextlib.contextmanager
    def preparing(self, run: RunFolder) -> Iterator[None]:
        """Inside, a master gets ready that `launch` takes if it makes `run`."""
        with contextlib.suppress(OSError):  # `launch` will say why
            self._prepared = Launch(self._python, run, self._environ)
        try:
            yield
        finally:
            with self._prepared_for(run) or contextlib.nullcontext():
                pass  # nobody took it

    def _prepared_for(self, run: RunFolder) -> Launch | None:
        if self._prepared is None or self._prepared.run != run:
            return None
        launch, self._prepared = self._prepared, None
        return launch

    def launch(self, definition: Definition, number: int) -> RunFolder:
        """Makes run `number` and starts it. Returns once its master serves. On any failure
        nothing of the run remains. UnavailableError when it cannot be."""
        missing = definition.missing_files()
        if missing:
            raise UnavailableError(
                f"{missing[0]}, which {definition.name} ships to its containers, is gone",
                f"`tfapp destroy {definition.name}` and create it anew.",
            )
        run = self._home.app(definition.name).run(number)
        with _all_or_nothing(run), writing(run.path):
            make_private(run.path.parent)
            delete_tree(run.path)  # half-made by a command that was killed
            run.path.mkdir(mode=0o700)
            with self._prepared_for(run) or Launch(self._python, run, self._environ) as launch:
                self._write(run, definition)
                # From here on it serves even if this process dies: who it is must be known.
                process = launch.wait_for_process()
                write_json(run.state, MasterState(process, self._hostname, ""))
                launch.go()
                launch.wait()
        return run

    def _write(self, run: RunFolder, definition: Definition) -> None:
        """All that a master reads. Meanwhile its process starts."""
        now = self._clock()
        gpus = visible_gpus(self._environ) if definition.gpus else ()
        config = RunConfig(
            name=definition.name,
            application=self._home.new_id(now, run.number),
            run=run.number,
            bind=self._bind,
            user=definition.user,
            environment=inherited(self._environ),
            gpu_locks=str(self._home.gpus),
            gpus=gpus,
            gpus_needed=definition.gpus,
            accepted=definition.accepted(now),
            tags=definition.tags,
            docker=definition.docker,
        )
        write_json(run.config, config)
        write_atomically(run.spec, definition.spec_message())
        for folder in (run.security, run.containers, run.localized, run.master_log.parent):
            make_private(folder)
        write_atomically(run.master_log, b"")

    def bury(self, run: RunFolder, state: str = FAILED) -> Ending:
        """Ends what is left of a run whose master died without a word, and writes that down.
        `state` KILLED: the master was killed on purpose."""
        ending = read_ending(run)  # it may have spoken just before its end
        if ending is not None:
            return ending
        config = read_config(run)
        kill_all(lambda: processes_of(run, config), KILL_DEADLINE)
        docker_leftovers.sweep(config.docker, self._python, config.environment)
        ending = verdict.master_lost(config.accepted, self._clock(), state)
        with contextlib.suppress(OSError):  # a disk that is full or gone: said again next time
            run.delete_leftovers()
            write_json(run.ending, ending)
        return ending


def processes_of(run: RunFolder, config: RunConfig) -> list[Process]:
    """All living processes of a run's containers, but for guards: by what they were told when
    they started, or by the folder that they started in."""
    prefix = yarn_container_id(config.application, 0)[:-6].encode()
    folder = os.fsencode(run.containers)
    told = with_environment(
        lambda env: (
            env.get(b"CONTAINER_ID", b"").startswith(prefix) and env.get(b"LOCAL_DIRS") == folder
        )
    )
    found = {*told, *working_under(str(run.containers.resolve()))}
    return [process for process in found if not is_guard(process)]


@contextlib.contextmanager
def _all_or_nothing(run: RunFolder) -> Iterator[None]:
    try:
        yield
    except BaseException:
        delete_tree(run.path)
        raise
