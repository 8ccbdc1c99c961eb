"""The coordinator's loop: turns messages and time into events for the policy, and has the policy's
actions carried out."""

from __future__ import annotations

import functools
import json
import queue
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.job import Job
from tfapp.contract.messages import Answer, Beat, ExitReport, FlexRequest
from tfapp.contract.names import (
    ALIVE_PREFIX,
    ANSWER_PREFIX,
    BEAT_PREFIX,
    EXIT_PREFIX,
    KEY_BACK,
    KEY_EXEC,
    KEY_FEED,
    KEY_FLEX,
    KEY_LEAVES,
    KEY_LOST,
    KEY_STATUS,
    KEY_STOP,
    KEY_TAKEOVER,
    REPORT_PREFIX,
    SAVED_PREFIX,
    STACKS_PREFIX,
    WAITS_PREFIX,
)
from tfapp.contract.saving import InstanceSave
from tfapp.contract.sessions import SessionRequest
from tfapp.contract.stacks import InstanceStacks
from tfapp.contract.status import ApplicationStatus, FeedStatus, Moment
from tfapp.coordinator import record
from tfapp.coordinator.executor import Executor
from tfapp.coordinator.nodes import Asked, Ends, Nodes, Waits
from tfapp.coordinator.policy import events, takeover, verdicts
from tfapp.coordinator.policy.actions import Action, LetSuspend, PublishSession
from tfapp.coordinator.policy.events import Event
from tfapp.coordinator.policy.state import FINISHED, State, new_state, shown_state, unheard
from tfapp.coordinator.policy.step import next_deadline, step
from tfapp.coordinator.policy.takeover import Handover
from tfapp.coordinator.publisher import Publisher
from tfapp.coordinator.record import Attempt, Recorder
from tfapp.frozen import frozen, replace
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Deleted, Put, Watch

Moments = tuple[Moment, ...]

TICK = 1.0  # seconds between two ticks at most


@frozen
class Terminated:
    """A message to the loop, from this process, to end the application."""

    message: str


class Loop:
    """Runs one application from its start to its verdict. `clock` returns monotonic seconds,
    `calendar` seconds since 1970. `inbox`: the queue in which all messages arrive. `say` writes a
    line to the log. `nodes`: more information about containers than the master gives. `seed`: see
    `events.Started`. `number`: of the master, from 1. `attempt`: where the application's record is
    kept, if the master does not keep it. `followed`: whether another coordinator goes on with
    the same programs when this one is killed. `unfit`: see `nodes.Waits`."""

    def __init__(
        self,
        job: Job,
        connection: Connection,
        inbox: queue.SimpleQueue[Any],
        clock: Callable[[], float],
        calendar: Callable[[], float],
        say: Callable[[str], None],
        nodes: Nodes | None = None,
        seed: int = 0,
        attempt: Attempt | None = None,
        number: int = 1,
        followed: bool = False,
        unfit: Callable[[], Mapping[str, str]] = dict,
    ):
        self._state = new_state(job)
        self._connection = connection
        self._inbox = inbox
        self._machine, self._shift = clock, 0.0  # see _go_on
        self._calendar = calendar
        self._clock = clock = lambda: self._machine() + self._shift
        self._say = say
        self._seed = seed
        self._view = StoreView()
        self._attempt = attempt
        self._recorder = None if attempt is None else Recorder(attempt, say)
        self._number = number if attempt is None else attempt.number
        self._executor = Executor(connection, clock, inbox.put, nodes, self._number)
        self._waits = Waits(connection, clock, inbox.put, nodes, unfit)
        self._publisher = Publisher(connection, clock, calendar)
        self._watch: Watch | None = None
        self._followed = followed
        self._left: State | None = None  # what a successor would know

    def run(self) -> ApplicationStatus:
        """Runs the application and returns its final status, which is published; the master has
        not been told the verdict yet. UnreachableError if the master is gone."""
        left = self._left_by_another() if self._followed else None
        if left is None:
            reports = tuple(self._subscribe())
            # All at once: a program's report counts before the end of its container.
            self._handle((self._started(), *reports))
        else:
            self._handle(self._go_on(left))
        while True:
            self._handle((events.Tick(self._clock()),))
            self._publisher.publish(self._state)
            if self._recorder is not None and self._publisher.newest is not None:
                self._recorder.keep(self._publisher.newest)
            if self._state.phase == FINISHED:
                return self._publisher.status(self._state)
            self._waits.look(self._state)
            self._handle(self._arrivals())

    def status(self) -> ApplicationStatus:
        """The status that was published last, or the initial one. For other threads."""
        return self._publisher.newest or self._publisher.status(self._state)

    def last_lines(self) -> dict[str, str]:
        """Instance -> the last lines of its program, of those whose runners have told them."""
        instances = self._state.instances.values()
        return {i.id: i.report.last_lines for i in instances if i.report is not None}

    def broken(self, error: BaseException) -> ApplicationStatus:
        """The final status after `run` raised `error`. A verdict that was decided before stands."""
        verdict = self._state.verdict or verdicts.bug(self._state, error)
        status = self._publisher.status(self._state)
        return replace(status, state=verdict.state, verdict=verdict)

    def recorded(self, status: ApplicationStatus) -> None:
        """Has the final `status` recorded, and waits for that for a few seconds."""
        if self._recorder is not None:
            self._recorder.keep(status)
            if not self._recorder.finish():
                self._say("the verdict is not in the application's record")

    def _left_by_another(self) -> Handover | None:
        """What another coordinator beside this master has left; None for the first one."""
        written = self._connection.get(KEY_TAKEOVER)
        left = None if written is None else takeover.read(written)
        return None if left is None or left.attempt != self._number else left

    def _go_on(self, left: Handover) -> tuple[Event, ...]:
        """Does again what was decided last, and reads what has happened since. Returns the events
        of all of it."""
        if left.boot != _boot() and left.zero:  # it was on another machine
            self._shift = self._calendar() - self._machine() - left.zero
        self._state, published = left.state, self._published()
        status = None if published is None else ApplicationStatus.from_dict(json.loads(published))
        self._publisher.take_over(left.since, status)
        self._executor.take_over(left.containers, left.pages)
        self._watch = self._connection.watch(prefixes=(REPORT_PREFIX,), into=self._inbox)
        before = self._watch.read()
        beats = self._view.take_over(before, left.seen)
        done = tuple(self._executor.carry_out(left.actions, again=True))
        # A container that had ended by now had told all before; what ends later is watched.
        ended = [
            end
            for end in self._executor.ended(self._state)
            if ALIVE_PREFIX + end.instance not in before
        ]
        told = tuple(self._view.reconcile(self._watch.read(), self._clock()))
        return (events.TakenOver(self._clock(), beats), *done, *told, *ended)

    def _leave(self, wanted: tuple[Action, ...]) -> None:
        """Writes down what a successor must know, before anything is done about it."""
        if not self._followed:
            return
        if not wanted and self._left is not None and takeover.same(self._left, self._state):
            return
        left = Handover(
            self._state,
            self._number,
            self._publisher.since,
            tuple(sorted(self._executor.containers)),
            self._executor.pages,
            self._view.seen(),
            wanted,
            _boot(),
            self._calendar() - self._clock(),
        )
        self._connection.put(KEY_TAKEOVER, takeover.write(left))
        self._left = self._state

    def _started(self) -> events.Started:
        """A status that is there already is that of a coordinator before a suspension. A record
        is that of one whose master was lost."""
        if self._is_second():
            read = self._attempt.read if self._attempt else self._published
            fresh = self._publisher.status(self._state)
            earlier = record.earlier(self._number, read, fresh, self._say)
            resumed = self._publisher.resume(earlier)
            told = self._connection.get(KEY_LOST) or b""
            why = record.why_lost(self._attempt, self._say) if self._attempt else told.decode()
            return events.Started(self._clock(), earlier, resumed, self._seed, True, why)
        value = self._published()
        if value is None:
            return events.Started(self._clock(), seed=self._seed)
        earlier = ApplicationStatus.from_dict(json.loads(value))
        before = self._publisher.resume(earlier)
        return events.Started(self._clock(), earlier, before, self._seed)

    def _is_second(self) -> bool:
        """Whether a master of this run was lost before this one."""
        if self._number == 1 or self._attempt is not None:
            return self._number > 1
        return self._connection.get(KEY_LOST) is not None  # else it was suspended

    def _published(self) -> bytes | None:
        return self._connection.get(KEY_STATUS)

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
        elif isinstance(item, Asked):
            self._waits.told()
            for instance in unheard(self._state):
                if instance.container in item.waits:
                    words, kind = item.waits[instance.container]
                    yield events.Waits(self._clock(), instance.id, instance.container, words, kind)
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
            self._leave(tuple(wanted))
            if any(isinstance(action, (LetSuspend, PublishSession)) for action in wanted):
                # Before anybody is let in, or ends this process.
                self._publisher.publish(self._state, at_once=True)
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


@functools.lru_cache(maxsize=1)
def _boot() -> str:
    """What tells this machine, since its start, from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _common(old: Moments, new: Moments) -> int:
    """The number of moments at the beginning of `new` that are in `old` too. `new` may lack the
    oldest of `old`."""
    last = old[-1] if old else None
    return next((i + 1 for i in range(len(new) - 1, -1, -1) if new[i] == last), 0)


class StoreView:
    """The reports in the key-value store, as they are known. After a broken stream the store is
    read again, and only values that are new become events."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def take_over(self, values: Mapping[str, bytes], seen: Mapping[str, int]) -> dict[str, Beat]:
        """Knows of `values` those that another coordinator had `seen`, and what containers own and
        tell again. Returns the newest heartbeats."""
        again = (ALIVE_PREFIX, BEAT_PREFIX)
        self._values = {
            key: value
            for key, value in values.items()
            if key.startswith(again) or seen.get(key) == zlib.crc32(value)
        }
        return {
            key[len(BEAT_PREFIX) :]: Beat.from_dict(json.loads(value))
            for key, value in values.items()
            if key.startswith(BEAT_PREFIX)
        }

    def seen(self) -> dict[str, int]:
        """The reports that are known, by a checksum of their values, but for those that are told
        again."""
        again = (ALIVE_PREFIX, BEAT_PREFIX)
        known = self._values.items()
        return {key: zlib.crc32(value) for key, value in known if not key.startswith(again)}

    def apply(self, change: Put | Deleted, time: float) -> Iterator[Event]:
        if isinstance(change, Deleted):
            yield from self._deleted(change.key, time)
        elif self._values.get(change.key) != change.value:
            self._values[change.key] = change.value
            yield from _written(change.key, change.value, time)

    def reconcile(self, values: Mapping[str, bytes], time: float) -> Iterator[Event]:
        """The events for the differences between the known values and `values`, the store's present
        content. Exit reports come before the ends of containers, because an end without a report is
        a loss."""
        for key in sorted(values, key=lambda key: not key.startswith(EXIT_PREFIX)):
            yield from self.apply(Put(key, values[key]), time)
        for key in tuple(self._values.keys() - values.keys()):
            yield from self.apply(Deleted(key), time)

    def _deleted(self, key: str, time: float) -> Iterator[Event]:
        value = self._values.pop(key, b"")
        if key.startswith(ALIVE_PREFIX):
            yield events.ContainerEnded(time, key[len(ALIVE_PREFIX) :], value.decode())


def _written(key: str, value: bytes, time: float) -> Iterator[Event]:
    if key == KEY_STOP:
        yield events.StopRequested(time, str(json.loads(value).get("message", "")))
        return
    if key == KEY_LEAVES:
        yield events.MasterLeaves(time, json.loads(value)[1] is True)
        return
    if key == KEY_FLEX:
        yield events.FlexRequested(time, FlexRequest.from_dict(json.loads(value)))
        return
    if key == KEY_EXEC:
        yield events.SessionRequested(time, SessionRequest.from_dict(json.loads(value)))
        return
    if key == KEY_FEED:
        yield events.Fed(time, FeedStatus.from_dict(json.loads(value)))
        return
    if key == KEY_BACK:
        yield events.MasterBack(time, json.loads(value)[1])
        return
    for prefix, make in _READERS.items():
        if key.startswith(prefix):
            yield make(time, key[len(prefix) :], json.loads(value))


_READERS: Mapping[str, Callable[[float, str, Any], Event]] = {
    ANSWER_PREFIX: lambda time, _, data: events.Answered(time, Answer.from_dict(data)),
    BEAT_PREFIX: lambda time, name, data: events.Beaten(time, name, Beat.from_dict(data)),
    STACKS_PREFIX: lambda time, _, data: events.StacksTold(time, InstanceStacks.from_dict(data)),
    SAVED_PREFIX: lambda time, _, data: events.SaveTold(time, InstanceSave.from_dict(data)),
    EXIT_PREFIX: lambda time, _, data: events.Exited(time, ExitReport.from_dict(data)),
    WAITS_PREFIX: lambda time, name, data: events.Waits(
        time, name, data["container"], data["text"], data["kind"]
    ),
}
