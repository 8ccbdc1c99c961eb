"""The runner at work: what happens becomes events for the policy, its actions are carried out."""

from __future__ import annotations

import collections
import os
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Deleted, Put
from tfapp.runner import events, policy
from tfapp.runner.container import Container
from tfapp.runner.heartbeat import Heartbeat
from tfapp.runner.master import PATIENCE, Master
from tfapp.runner.package_script import Outcome
from tfapp.runner.preparation import Preparation
from tfapp.runner.progress import StoppedDetector
from tfapp.runner.run_mode import RunMode
from tfapp.runner.supervisor import FailedError, ScriptDone, Supervisor
from tfapp.script import Program

FENCED = 1  # exit code of a runner that lost its master


class Runner:
    """One instance's runner. `say(line)` writes to the container's log; `leave(code)` ends the
    process from any thread."""

    def __init__(
        self,
        container: Container,
        connection: Connection,
        preparation: Preparation,
        mode: RunMode,
        say: Callable[[str], None],
        leave: Callable[[int], Any] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ):
        limits = container.job.limits
        self._supervisor = Supervisor(container, preparation, mode, say)
        patience = max(limits.heartbeat_lost, PATIENCE)
        self._master = Master(connection, self._supervisor.name, patience, clock)
        self._preparation = preparation
        self._mode = mode
        self._script = container.component.script
        self._happened: queue.SimpleQueue = preparation.events
        self._say = say
        self._leave = leave
        self._clock = clock
        self._state = policy.RunnerState(
            component=container.component.name,
            gang=limits.gang,
            requested=container.generation,
            instance=self._supervisor.name,
            container=connection.container,
        )
        self._interval = limits.heartbeat
        self._heartbeat = Heartbeat(
            self._beat, self._abandon, limits.heartbeat, limits.heartbeat_lost, clock
        )
        self._beats = 0
        self._stopped = StoppedDetector(self._clock)
        self._next_status: float | None = None  # None: nothing runs, or the script is being asked

    def run(self) -> int:
        """Until the coordinator lets the instance go. The exit code of the container.
        UnreachableError when the master stays away and there is no fence."""
        watch = self._master.watch(self._happened)
        self._heartbeat.start(self._doing())
        try:
            self._decide(self._master.read(watch))
            while self._state.phase != policy.DONE:
                item = self._wait()
                if isinstance(item, Broken):
                    self._say(f"the master's stream broke: {item.message}; opening a new one")
                    watch.close()
                    watch = self._master.watch(self._happened)
                    self._decide(self._master.read(watch))
                else:
                    self._decide(self._translate(item))
        finally:
            watch.close()
            self._heartbeat.close(timeout=1)
            self._supervisor.release_ports()
        return 0

    def _abandon(self, message: str) -> None:
        """Ends the program and this process. Called by the heartbeat, in its thread."""
        self._say(f"{message} - ending the program")
        self._mode.kill_all()
        self._leave(FENCED)

    def _doing(self) -> tuple[int, str]:
        """The content of a heartbeat: the generation, and the runner's state in it."""
        return self._state.generation, policy.BEAT_STATES[self._state.phase]

    def _beat(self, doing: tuple[int, str]) -> None:
        self._beats += 1
        generation, state = doing
        program = self._supervisor.program
        docker = program.container if program is not None else ""
        measured = self._supervisor.measure()
        self._master.beat(
            Beat(
                generation,
                self._beats,
                state,
                docker,
                container=self._master.container,
                host=self._supervisor.host,
                preparing=self._supervisor.preparing,
                metrics=measured.metrics,
                step=measured.step,
                steps_per_second=measured.steps_per_second,
            )
        )

    # ---- what happens ------------------------------------------------------------------------
    def _wait(self) -> Any:
        due = [moment for moment in (self._state.deadline, self._next_status) if moment is not None]
        timeout = max(min(due) - self._clock(), 0) if due else None
        try:
            return self._happened.get(timeout=timeout)
        except queue.Empty:
            return events.Tick()

    def _decide(self, happened: Iterable[events.Event]) -> None:
        pending = collections.deque(happened)
        while pending:
            self._state, actions = policy.step(self._state, pending.popleft(), self._clock())
            for action in actions:
                try:
                    self._do(action)
                except FailedError as failed:
                    pending.append(events.Failed(failed.exit))
                    break
        self._heartbeat.tell(self._doing())

    def _translate(self, item: Any) -> tuple[events.Event, ...]:
        if isinstance(item, Put):
            return self._master.understand(item.key, item.value)
        if isinstance(item, Deleted):
            return ()
        if isinstance(item, ScriptDone):
            return self._script_done(item)
        if isinstance(item, events.Prepared) and item.refusal is not None:
            self._supervisor.show(self._preparation.traceback)
        if isinstance(item, events.Ended):
            self._next_status = None
        if isinstance(item, events.Tick):
            return (item, *self._look_after_program())
        return (item,)

    def _look_after_program(self) -> tuple[events.Event, ...]:
        if self._next_status is None or self._clock() < self._next_status:
            return ()
        self._next_status = None
        program = self._supervisor.program
        hanging = self._stopped.look(program.stopped() if program is not None else ())
        if hanging is not None:
            return (events.Unwell(self._state.current, hanging),)
        self._supervisor.ask_status()
        return ()

    def _script_done(self, done: ScriptDone) -> tuple[events.Event, ...]:
        if done.attempt != self._state.current:
            return ()
        name, outcome = done.name, done.outcome
        if name == "status":
            return self._status_told(outcome)
        if outcome.failure is not None:
            self._supervisor.show(outcome.traceback)
        if name == "start":
            return (self._chosen(outcome),)
        if outcome.failure is not None:
            self._supervisor.tell(outcome.failure.text)
            self._supervisor.kill()
        return ()

    def _chosen(self, outcome: Outcome) -> events.Event:
        if outcome.failure is not None:
            return events.Failed(outcome.failure)
        if not isinstance(outcome.value, Program):
            kind = type(outcome.value).__name__
            text = f"{self._script}: start() returned {kind}, not a Program"
            return events.Failed(Exit(None, None, "script", text))
        return events.Chosen(outcome.value)

    def _status_told(self, outcome: Outcome) -> tuple[events.Event, ...]:
        program = self._supervisor.program
        if program is None or not program.alive:
            return ()
        self._next_status = self._clock() + self._interval
        if outcome.failure is not None:
            self._supervisor.show(outcome.traceback)
            return (events.Unwell(self._state.current, outcome.failure),)
        if not outcome.value:
            text = f"{self._script}: status() says that the program is not well"
            return (events.Unwell(self._state.current, Exit(None, None, "script", text)),)
        return ()

    # ---- what is done ------------------------------------------------------------------------
    def _do(self, action: events.Action) -> None:
        """FailedError when it cannot be done."""
        supervisor, master = self._supervisor, self._master
        if isinstance(action, events.Register):
            master.answer(supervisor.answer(action.generation, master.container))
            supervisor.tell(
                f"{supervisor.name} is ready for generation {action.generation}, "
                "waiting for the others"
            )
        elif isinstance(action, events.Restart):
            supervisor.keep_address()
        elif isinstance(action, events.Choose):
            supervisor.choose(action.cluster, self._state.current)
        elif isinstance(action, events.Launch):
            supervisor.launch(action.program)
            self._next_status = self._clock() + self._interval
        elif isinstance(action, events.Stop):
            supervisor.stop()
        elif isinstance(action, events.Kill):
            supervisor.kill()
        elif isinstance(action, events.Report):
            master.report(supervisor.report(action, master.container))
