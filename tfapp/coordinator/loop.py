"""The coordinator's loop: turns messages and time into events for the policy, and has the policy's
actions carried out."""

from __future__ import annotations

import dataclasses
import queue
from collections.abc import Callable, Iterable, Iterator

from tfapp.contract.job import Job
from tfapp.contract.names import REPORT_PREFIX
from tfapp.contract.status import ApplicationStatus, Moment
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.nodes import Ends, Nodes
from tfapp.coordinator.policy import events, verdicts
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.events import Event
from tfapp.coordinator.policy.state import FINISHED, State, new_state, shown_state
from tfapp.coordinator.policy.step import next_deadline, step
from tfapp.coordinator.publisher import Publisher
from tfapp.coordinator.store_view import StoreView
from tfapp.frozen import frozen
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Watch

Moments = tuple[Moment, ...]

TICK = 1.0  # seconds between two ticks at most


@frozen
class Terminated:
    """A message to the loop, from this process, to end the application."""

    message: str


class Loop:
    """Runs one application from its start to its verdict. `clock` returns monotonic seconds,
    `calendar` seconds since 1970. `inbox`: the queue in which all messages arrive. `say` writes a
    line to the log. `nodes`: more information about ended containers than the master has."""

    def __init__(
        self,
        job: Job,
        connection: Connection,
        inbox: queue.SimpleQueue,
        clock: Callable[[], float],
        calendar: Callable[[], float],
        say: Callable[[str], None],
        nodes: Nodes | None = None,
    ):
        self._state = new_state(job)
        self._connection = connection
        self._inbox = inbox
        self._clock = clock
        self._say = say
        self._view = StoreView()
        self._executor = Executor(connection, clock, inbox.put, nodes)
        self._publisher = Publisher(connection, clock, calendar)
        self._watch: Watch | None = None

    def run(self) -> ApplicationStatus:
        """Runs the application and returns its final status, which is published; the master has
        not been told the verdict yet. UnreachableError if the master is gone."""
        reports = tuple(self._subscribe())
        # All at once: a program's report counts before the end of its container.
        self._handle((events.Started(self._clock()), *reports))
        while True:
            self._handle((events.Tick(self._clock()),))
            self._publisher.publish(self._state)
            if self._state.phase == FINISHED:
                return self._publisher.status(self._state)
            self._handle(self._arrivals())

    def status(self) -> ApplicationStatus:
        """The status that was published last, or the initial one. For other threads."""
        return self._publisher.newest or self._publisher.status(self._state)

    def broken(self, error: BaseException) -> ApplicationStatus:
        """The final status after `run` raised `error`. A verdict that was decided before stands."""
        verdict = self._state.verdict or verdicts.bug(self._state, error)
        status = self._publisher.status(self._state)
        return dataclasses.replace(status, state=verdict.state, verdict=verdict)

    def _subscribe(self) -> Iterator[Event]:
        """Watches the reports (again). Yields the events of the reports that are there already."""
        self._watch = self._connection.watch(prefixes=(REPORT_PREFIX,), into=self._inbox)
        yield from self._view.reconcile(self._watch.read(), self._clock())

    def _arrivals(self) -> Iterator[Event]:
        """Waits for a message or the next deadline. Yields the events of all messages that have
        arrived."""
        due = min(next_deadline(self._state), self._publisher.due())
        wait = min(max(due - self._clock(), 0.0), TICK)
        try:
            first = self._inbox.get(timeout=wait)
        except queue.Empty:
            return
        yield from self._translate(first)
        for _ in range(self._inbox.qsize()):
            yield from self._translate(self._inbox.get_nowait())

    def _translate(self, item: object) -> Iterator[Event]:
        if isinstance(item, Terminated):
            yield events.StopRequested(self._clock(), item.message)
        elif isinstance(item, Ends):
            yield self._executor.read(item)
        elif isinstance(item, Broken):
            self._say(f"the stream of reports broke: {item.message}; opening it again")
            if self._watch is not None:
                self._watch.close()
            yield from self._subscribe()
        else:
            yield from self._view.apply(item, self._clock())  # type: ignore[arg-type]

    def _handle(self, happened: Iterable[Event]) -> None:
        """Gives the events `happened` to the policy and carries out its actions, then does the same
        with the events that result, until there are none."""
        while True:
            before = self._state
            wanted: list[Action] = []
            for event in happened:
                self._state, more = step(self._state, event)
                wanted.extend(more)
            self._log_changes(before)
            happened = tuple(self._executor.carry_out(wanted))
            if not happened:
                return

    def _log_changes(self, before: State) -> None:
        after = self._state
        if after.phase != before.phase:
            self._say(f"generation {after.generation}: {after.phase}")
        for name, instance in after.instances.items():
            old = before.instances.get(name)
            if instance is not old and (old is None or instance.state != old.state):
                exit = f" ({instance.exit.text})" if instance.exit else ""
                self._say(f"{name}: {shown_state(after, instance)}{exit}")
        if after.timeline is not before.timeline:
            for moment in after.timeline[_common(before.timeline, after.timeline) :]:
                self._say(moment.text)


def _common(old: Moments, new: Moments) -> int:
    """The number of moments at the beginning of `new` that are in `old` too. `new` may lack the
    oldest of `old`."""
    last = old[-1] if old else None
    return next((i + 1 for i in range(len(new) - 1, -1, -1) if new[i] == last), 0)
