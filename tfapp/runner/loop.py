"""The runner at work: what happens becomes events for the policy, its actions are carried out."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfapp import threads
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat
from tfapp.contract.names import KEY_PROFILE, KEY_SAVE, KEY_SESSION, KEY_STACKS, attempt_of
from tfapp.contract.profiles import ProfileRequest
from tfapp.contract.saving import GO_ON, OVER, InstanceSave, SaveRequest
from tfapp.contract.sessions import SessionOffer, SessionRequest
from tfapp.contract.stacks import InstanceStacks, StacksRequest
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Deleted, Put, Watch
from tfapp.runner import events, metrics, policy
from tfapp.runner.asked import Asked
from tfapp.runner.container import Container
from tfapp.runner.heartbeat import Heartbeat
from tfapp.runner.master import PATIENCE, MasterLink
from tfapp.runner.package_script import ScriptOutcome
from tfapp.runner.preparation import Preparation
from tfapp.runner.progress import StoppedDetector
from tfapp.runner.run_mode import RunMode
from tfapp.runner.saving import Saving
from tfapp.runner.supervisor import FailedError, ScriptDone, Supervisor
from tfapp.runner.witness import witness_of
from tfapp.script import Program

LONGEST_WAIT = 0.5  # seconds: the handler of a signal that comes as a wait begins runs after it
FENCED = 1  # exit code of a runner that lost its master
FAILED = 1  # of one whose last program has failed, for those who look at containers alone
TERMINATED = 128 + signal.SIGTERM  # of one that was asked to end


class _LeftError(Exception):
    """The container was asked to end while there was no master, and its program has ended."""


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
        self._witness = witness_of(container.environ, connection.key, connection.move, clock)
        connection.when_lost(self._while_away)
        patience = max(limits.heartbeat_lost, self._witness.limit if self._witness else PATIENCE)
        attempt = attempt_of(container.environ.get("CONTAINER_ID", ""))
        self._master = MasterLink(
            connection, self._supervisor.name, patience, clock, attempt, self._witness
        )
        self._preparation = preparation
        self._mode = mode
        self._script = container.component.script
        self._happened: queue.SimpleQueue[Any] = preparation.events
        self._later: collections.deque[Any] = collections.deque()  # what has happened before those
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
            self._beat,
            self._abandon,
            limits.heartbeat,
            limits.heartbeat_lost,
            clock,
            self._witness,
        )
        self._beats = 0
        self._failed = False  # whether the last program has failed by itself
        self._fenced = False  # whether the program was ended because the master is lost
        self._waits = 0  # the thread that waits for a master to hear what happened meanwhile
        self._stopped = StoppedDetector(self._clock)
        self._saving = Saving(
            self._supervisor.name, connection.container, container.save_file, container.saved_file
        )
        told, supervisor = self._master, self._supervisor
        self._asked_stacks = Asked("the stacks of the program", self._take_stacks, told.tell_stacks)
        self._asked_profile = Asked(
            "the profile of the program", supervisor.profile, told.tell_profile
        )
        self._asked_save = Asked("whether the program has saved", self._take_save, told.tell_save)
        self._asked_session: Asked[SessionRequest, SessionOffer] = Asked(
            "a session",
            lambda request: supervisor.session(request, connection.certificate, connection.key),
            told.tell_session,
        )
        self._next_status: float | None = None  # None: nothing runs, or the script is being asked

    def run(self) -> int:
        """Until the coordinator lets the instance go. The exit code of the container.
        UnreachableError when the master stays away and there is no fence."""
        watch = self._master.watch(self._happened)
        self._heartbeat.start(self._doing())
        try:
            self._catch_up(watch)
            while self._state.phase != policy.DONE:
                item = self._wait()
                if isinstance(item, Broken):
                    self._say(f"the master's stream broke: {item.message}; opening a new one")
                    watch.close()
                    with self._waiting():
                        watch = self._master.watch(self._happened)
                    self._catch_up(watch)
                    self._happened.put(events.Reached())  # after what has come meanwhile
                else:
                    self._decide(self._translate(item))
        except _LeftError:
            pass
        finally:
            watch.close()
            self._heartbeat.close(timeout=1)
            self._supervisor.release_ports()
        if self._state.terminated:
            return TERMINATED
        return FAILED if self._failed else 0

    def _catch_up(self, watch: Watch) -> None:
        """Hears what was said before `watch` began."""
        with self._waiting():
            said = self._master.read(watch)
        for item in said:
            self._decide(self._translate(item))

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._waits = threading.get_ident()
        try:
            yield
        finally:
            self._waits = 0

    def _while_away(self) -> None:
        """Called in any thread, each time that the master was not reached. A container that is
        asked to end does not wait for the next one."""
        if self._witness is not None:
            self._witness.find()
        if self._waits != threading.get_ident():
            return
        with contextlib.suppress(queue.Empty):
            while True:
                self._later.append(self._happened.get_nowait())
        happened, self._later = self._later, collections.deque()
        for item in happened:
            ends = self._state.terminated and isinstance(item, events.Ended)
            if ends or isinstance(item, events.Terminated):
                self._decide(self._translate(item))
            else:
                self._later.append(item)
        if self._state.terminated and self._clock() >= self._state.saved_by:
            self._decide((events.Tick(),))  # until then, the next one may ask all to save
        if self._state.phase == policy.DONE:
            raise _LeftError

    def _abandon(self, message: str) -> None:
        """Ends the program and this process. Called by the heartbeat, in its thread. Nothing is
        reported any more: the container is lost, and its program has not failed."""
        self._fenced = True
        self._say(f"{message} - ending the program")
        try:
            self._mode.kill_all()
        finally:
            self._leave(FENCED)

    def _doing(self) -> tuple[int, str]:
        """The content of a heartbeat: the generation, and the runner's state in it."""
        return self._state.generation, policy.BEAT_STATES[self._state.phase]

    def _beat(self, doing: tuple[int, str]) -> None:
        self._beats += 1
        generation, state = doing
        program = self._supervisor.program
        docker = program.container if program is not None else ""
        self._master.beat(
            Beat(
                generation,
                self._beats,
                state,
                docker,
                container=self._master.container,
                host=self._supervisor.host,
                preparing=self._supervisor.preparing,
                saves=program is not None and self._saving.takes_part,
                **vars(self._measured()),
            )
        )

    def _measured(self) -> metrics.Reading:
        try:
            return self._supervisor.measure()
        except Exception as error:  # no program ends for its metrics
            threads.say("the metrics of the program", error)
            return metrics.NOTHING

    # ---- what happens ------------------------------------------------------------------------
    def _wait(self) -> Any:
        if self._later:
            return self._later.popleft()
        due = [moment for moment in (self._state.deadline, self._next_status) if moment is not None]
        while True:
            left = max(min(due) - self._clock(), 0) if due else math.inf
            try:
                return self._happened.get(timeout=min(left, LONGEST_WAIT))
            except queue.Empty:
                if left <= LONGEST_WAIT:
                    return events.Tick()

    def _decide(self, happened: Iterable[events.Event]) -> None:
        pending = collections.deque(happened)
        while pending:
            event = pending.popleft()
            self._state, actions = policy.step(self._state, event, self._clock())
            if isinstance(event, events.Terminated) and self._state.phase != policy.DONE:
                saves = f"{event.saves:g} s to save and " if event.saves else ""
                self._say(
                    "this container is asked to end (SIGTERM): its program has "
                    f"{saves}{event.grace:g} s"
                )
            for action in actions:
                try:
                    self._do(action)
                except FailedError as failed:
                    pending.append(events.Failed(failed.exit))
                    break
        self._heartbeat.tell(self._doing())

    def _translate(self, item: Any) -> tuple[events.Event, ...]:
        if isinstance(item, Put) and item.key == KEY_STACKS:
            return self._stacks_asked(StacksRequest.from_dict(json.loads(item.value)))
        if isinstance(item, Put) and item.key == KEY_PROFILE:
            self._asked_profile.ask(ProfileRequest.from_dict(json.loads(item.value)))
            return ()
        if isinstance(item, Put) and item.key == KEY_SAVE:
            return self._save_asked(SaveRequest.from_dict(json.loads(item.value)))
        if isinstance(item, Put) and item.key == KEY_SESSION:
            self._asked_session.ask(SessionRequest.from_dict(json.loads(item.value)))
            return ()
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

    def _stacks_asked(self, request: StacksRequest) -> tuple[events.Event, ...]:
        if request.over:
            return (events.StacksOver(),)
        self._asked_stacks.ask(request)
        return ()

    def _take_stacks(self, request: StacksRequest) -> InstanceStacks | None:
        ends = self._state.phase == policy.HANGING
        taken = self._supervisor.stacks(request, self._master.container, ends)
        return None if taken is None else taken.fitting()

    def _save_asked(self, request: SaveRequest) -> tuple[events.Event, ...]:
        heard = request == self._saving.newest  # a stream or a coordinator has begun anew
        if heard or request.generation != self._state.generation:
            return ()
        self._saving.newest = request
        self._asked_save.ask(request)
        return (events.SaveAsked(over=request.action in (OVER, GO_ON)),)

    def _take_save(self, request: SaveRequest) -> InstanceSave | None:
        program = self._supervisor.program
        return self._saving.take(request, lambda: program is not None and program.alive)

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

    def _chosen(self, outcome: ScriptOutcome) -> events.Event:
        if outcome.failure is not None:
            return events.Failed(outcome.failure)
        if not isinstance(outcome.value, Program):
            kind = type(outcome.value).__name__
            text = f"{self._script}: start() returned {kind}, not a Program"
            return events.Failed(Exit(None, None, "script", text))
        return events.Chosen(outcome.value)

    def _status_told(self, outcome: ScriptOutcome) -> tuple[events.Event, ...]:
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
        if self._fenced:
            return
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
            self._failed = False
            self._saving.forget()
            supervisor.launch(action.program)
            self._next_status = self._clock() + self._interval
        elif isinstance(action, events.Stop):
            supervisor.stop()
        elif isinstance(action, events.Kill):
            supervisor.kill()
        elif isinstance(action, events.Report):
            self._failed = action.exit.code != 0 and not action.stopped
            master.report(supervisor.report(action, master.container))
