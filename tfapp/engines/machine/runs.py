"""Creates runs, and cleans up after runs whose master has died."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, KILLED, LOST
from tfapp.contract.status import ApplicationStatus, Cause, Verdict, conclude
from tfapp.disk import delete_tree, make_private, write_atomically, write_json, writing
from tfapp.engines.definition import Definition
from tfapp.engines.machine.folders import Home, RunFolder
from tfapp.engines.machine.starter import MasterStart, inherited
from tfapp.engines.machine.state import (
    MasterState,
    RunConfig,
    read_config,
    read_ending,
    read_state,
    read_status,
)
from tfapp.errors import ExitCode, UnavailableError
from tfapp.master.ending import Ending, no_more
from tfapp.master.journal import delete


class Facts(Protocol):
    """The differences between engines: see RecordedEngine."""

    def bind(self) -> str: ...

    def gpus(self, definition: Definition) -> tuple[str, ...]: ...

    def end_leftovers(self, run: RunFolder, config: RunConfig) -> None: ...


class Runs:
    """Creates the runs of all applications under `home`. `clock`: seconds since 1970."""

    def __init__(
        self,
        home: Home,
        launcher: str,
        environ: Mapping[str, str],
        python: str,
        clock: Callable[[], float],
        hostname: str,
        engine: Facts,
    ):
        self.home = home
        self._launcher = launcher
        self._engine = engine
        self._environ = environ
        self._python = python
        self.clock = clock
        self.hostname = hostname
        self._prepared: MasterStart | None = None

    @contextlib.contextmanager
    def preparing(self, run: RunFolder) -> Iterator[None]:
        """A context manager: prepares a master, which `launch` uses if it creates `run`."""
        with contextlib.suppress(OSError):  # `launch` will say why
            self._prepared = MasterStart(self._python, self._launcher, run, self._environ)
        try:
            yield
        finally:
            with self._prepared_for(run) or contextlib.nullcontext():
                pass  # nobody took it

    def _prepared_for(self, run: RunFolder) -> MasterStart | None:
        if self._prepared is None or self._prepared.run != run:
            return None
        launch, self._prepared = self._prepared, None
        return launch

    def launch(self, definition: Definition, number: int) -> RunFolder:
        """Creates run `number` and starts it. Returns once its master serves. UnavailableError if
        that fails; on any failure nothing of the run is left behind."""
        missing = definition.missing_files()
        if missing:
            raise UnavailableError(
                f"{missing[0]}, which {definition.name} ships to its containers, is gone",
                f"`tfapp destroy {definition.name}` and create it anew.",
            )
        run = self.home.app(definition.name).run(number)
        with _all_or_nothing(run), writing(run.path):
            make_private(run.path.parent)
            delete_tree(run.path)  # half-made by a command that was killed
            run.path.mkdir(mode=0o700)
            with self._prepared_for(run) or MasterStart(
                self._python, self._launcher, run, self._environ
            ) as launch:
                self._write(run, definition)
                # It serves even if this process dies now: its process id must be written down.
                process, parent = launch.wait_for_process()
                write_json(run.state, MasterState(process, self.hostname, "", parent))
                launch.go()
                launch.wait()
        return run

    def _write(self, run: RunFolder, definition: Definition) -> None:
        """Writes all files for the master, while its process starts."""
        now = self.clock()
        config = RunConfig(
            name=definition.name,
            application=self.home.new_id(now, run.number),
            run=run.number,
            bind=self._engine.bind(),
            user=definition.user,
            environment=inherited(self._environ),
            gpu_locks=str(self.home.gpus),
            gpus=self._engine.gpus(definition),
            gpus_needed=definition.gpus,
            gpus_most=definition.gpus_most,
            accepted=definition.accepted(now),
            attempts=definition.attempts,
            master_timeout=definition.master_timeout,
            tags=definition.tags,
            docker=definition.docker,
            engine=definition.engine,
        )
        write_json(run.config, config, durable=True)
        write_atomically(run.spec, definition.spec_message())
        for folder in (run.security, run.containers, run.localized, run.master_log.parent):
            make_private(folder)
        write_atomically(run.master_log, b"")

    def clear_up(self, run: RunFolder, state: str = FAILED) -> Ending:
        """Ends the remaining processes of a run whose master has died without an ending, and writes
        one. `state` KILLED: the master was killed deliberately."""
        ending = read_ending(run)  # it may have spoken just before its end
        if ending is not None:
            return ending
        config = read_config(run)
        self._engine.end_leftovers(run, config)
        ending = self.lost(run, config, state)
        with contextlib.suppress(OSError):  # a disk that is full or gone: said again next time
            run.delete_leftovers()
            write_json(run.ending, ending, durable=True)
            delete(run.journal)
        return ending

    def lost(self, run: RunFolder, config: RunConfig, state: str = FAILED) -> Ending:
        """The ending of a run whose last master has died. `state`: see `clear_up`."""
        last_known, master = read_status(run) or config.accepted, read_state(run)
        return master_lost(last_known, self.clock(), state, master.attempt if master else 1)


@contextlib.contextmanager
def _all_or_nothing(run: RunFolder) -> Iterator[None]:
    try:
        yield
    except BaseException:
        delete_tree(run.path)
        raise


def master_lost(
    last_known: ApplicationStatus, now: float, state: str = FAILED, masters: int = 1
) -> Ending:
    """The ending of a run whose last master, number `masters`, has died. `state` KILLED: it was
    killed deliberately."""
    summary = (
        "The application master was lost: its process has ended without a verdict. "
        "All processes of the application have been ended."
    )
    summary += no_more(masters)
    if state == KILLED:
        summary = "The application master did not answer and was killed with the application."
    exit = Exit(None, None, "lost", "the application master was lost")
    cause = Cause("", last_known.generation, "", "", exit)
    verdict = last_known.decided or Verdict(state, int(ExitCode[state]), summary, cause)
    return Ending(verdict.state, verdict.summary, conclude(last_known, verdict, now, LOST))
