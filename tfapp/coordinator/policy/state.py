"""The state of the coordinator as frozen values, and the functions that read it."""

from __future__ import annotations

import dataclasses
import enum
import math
import random
from collections.abc import Iterable, Mapping
from typing import Any

from tfapp.contract import names
from tfapp.contract.encoding import Coded
from tfapp.contract.exit import LOSS_REASONS, Exit
from tfapp.contract.job import Job, queue_limit
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.metrics import Measure
from tfapp.contract.names import (
    FORMING,
    SERVICE_ROLES,
    initial_container,
    instance_id,
    parse_instance,
)
from tfapp.contract.saving import InstanceSave
from tfapp.contract.status import (
    BEGINS,
    ApplicationStatus,
    FeedStatus,
    LastFailure,
    Moment,
    Record,
    Verdict,
)
from tfapp.contract.usage import Usage
from tfapp.coordinator.policy.events import ContainerInfo
from tfapp.frozen import frozen, replace

FINISHED = "FINISHED"  # the phase after STOPPING: the verdict is out, nothing changes any more

LEAST_STALL = 300.0  # seconds without a step that are a stall, at least
GAPS = 11  # of a program, whose middle one is its usual one
MAX_TIMELINE = 100  # moments that are kept
MAX_FAILED_ON = 20  # machines of an instance
# Times that the wait for a whole cluster, and the pause after it, are doubled at most.
MAX_DOUBLINGS = 4


class Stage(enum.Enum):
    """The stage of an instance in the current generation."""

    REQUESTED = names.REQUESTED  # its container was requested; its runner was not heard of
    WAITING = names.WAITING  # its runner is up
    RUNNING = names.RUNNING
    STOPPING = names.STOPPING  # it was told to stop
    ENDED = "ENDED"  # its runner has reported the end of its program, and waits
    GONE = "GONE"  # its container has ended or was killed, or its runner was told to exit


class Intent(enum.Enum):
    RUN = "RUN"  # it takes part
    JOIN = "JOIN"  # it came by flex, and takes part from the next generation on
    LATE = "LATE"  # the generation has formed without it; it takes part in a later one
    RESTART = "RESTART"  # its program starts again in the same container, when `due`
    STOP = "STOP"  # it is told to stop, when `due`
    IGNORE = "IGNORE"  # it has failed, and the application does without it


@frozen
class Pace:
    """How a program counts its steps, or epochs. Gaps: seconds between two looks at which the count
    was found changed."""

    count: int
    at: float  # when it was first seen
    seen: float  # when it was last seen
    gaps: tuple[float, ...] = ()  # the last ones
    longest: float = 0.0  # gap

    def next(self, count: int, time: float) -> Pace:
        if count == self.count:
            return replace(self, seen=time)
        # A lower count is a step too: a program may begin to count anew, as in each epoch.
        gap = time - self.at
        return Pace(count, time, time, (*self.gaps, gap)[-GAPS:], max(self.longest, gap))

    @property
    def patience(self) -> float:
        """Seconds without a step that are a stall: much longer than usual. Infinity where no gap is
        known."""
        if not self.gaps:
            return math.inf
        # Of two the shorter: the first one is mostly long.
        usual = sorted(self.gaps)[(len(self.gaps) - 1) // 2]
        return max(LEAST_STALL, 10 * usual, 2 * self.longest)

    @property
    def stalls(self) -> bool:
        """Whether the count stands still for much longer than usual."""
        return self.seen - self.at >= self.patience


@frozen
class Instance:
    id: str
    component: str
    index: int
    role: str
    stage: Stage = Stage.REQUESTED
    intent: Intent = Intent.RUN
    due: float = math.inf  # time of the intent
    container: str = ""  # its id; "" while the master has not accepted the request for it
    requested_in: int = 1  # the generation for which the container was requested
    joined: int = 1  # the generation from which on it takes part
    host: str = ""  # advertised; "" until its runner is heard of
    failed_on: tuple[str, ...] = ()  # the machines on which it was lost, perhaps because of them
    attempt: int = 0  # restarts of its program in this generation and container
    answer: Answer | None = None
    docker: str = ""  # id of the Docker container of its program
    preparing: str = ""  # what it waits for before its answer: the master's words, or its runner's
    held: str = ""  # QUEUE, QUOTA or NODES while a scheduler holds its container back
    asked: float = -math.inf  # time of the request for its container
    granted: float | None = None  # time at which the container got its place
    heard: float | None = None  # time of the last message of its runner
    exit: Exit | None = None  # once it is ENDED or GONE
    report: ExitReport | None = None
    # Metrics of its program, or of the previous program until this one reports some.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None
    epoch: int | None = None
    total: int | None = None
    usage: Usage | None = None  # of its program
    used: Usage | None = None  # of its programs before that
    points: Mapping[str, tuple[tuple[float, int | None, Measure], ...]] = dataclasses.field(
        default_factory=dict
    )
    pace: Pace | None = None  # of its program, once that has counted
    saves: bool = False  # whether its program saves before a planned stop

    def measured(self, said: Beat | ExitReport) -> Instance:
        """The instance with the metrics and the usage that its runner reports."""
        if said.usage is not None:
            begins = self.usage is not None and said.usage.seconds < self.usage.seconds
            self = replace(self, usage=said.usage, used=self.total_usage if begins else self.used)
        if not said.metrics and said.step is None and said.epoch is None:
            return self
        return replace(
            self,
            metrics=said.metrics,
            step=said.step,
            steps_per_second=said.steps_per_second,
            epoch=said.epoch,
            total=said.total,
            points=said.points,
        )

    @property
    def total_usage(self) -> Usage | None:
        """Of its program and those before; None where nothing is known."""
        return self.used if self.usage is None else self.usage.after(self.used)

    @property
    def avoids(self) -> tuple[str, ...]:
        """The machines on which it was lost twice."""
        return tuple(sorted({n for n in self.failed_on if self.failed_on.count(n) > 1}))

    @property
    def joins(self) -> bool:
        """Whether it takes part in a later generation, and not in the present one."""
        return self.intent in (Intent.JOIN, Intent.LATE)

    @property
    def ended(self) -> bool:
        """Whether it has ended for this generation."""
        return self.exit is not None

    @property
    def succeeded(self) -> bool:
        return self.exit is not None and self.exit.code == 0

    @property
    def lost(self) -> bool:
        """Whether its container, or the runner in it, has ended or is silent."""
        reason = self.exit.reason if self.exit else ""
        return self.stage is Stage.GONE or reason in LOSS_REASONS

    @property
    def state(self) -> str:
        """One of the states in `contract.names`."""
        if self.exit is None:
            return str(self.stage.value)
        if self.exit.code == 0:
            return names.SUCCEEDED
        if self.exit.reason == "stopped" or (self.report is not None and self.report.stopped):
            return names.KILLED
        unreported = self.report is None and self.container != ""
        return names.LOST if unreported or self.exit.reason in LOSS_REASONS else names.FAILED


class Recovery(enum.Enum):
    """The recovery that has begun for an open failure."""

    NONE = "NONE"  # none: it has not been looked at, or its cause so far ends the application
    PROGRAM = "PROGRAM"  # a program starts again in the same container
    CONTAINER = "CONTAINER"  # a container is replaced, the others go on
    GENERATION = "GENERATION"  # the next generation forms


@frozen
class Failure:
    """A failure that has not been judged yet."""

    generation: int  # in which it happened
    begun: float
    settled: float  # the end of the settle time
    ends: tuple[Instance, ...]  # the instances that failed, with their exits, in order of arrival
    recovery: Recovery = Recovery.NONE
    told: int = -1  # index in `ends` of the cause that the present recovery is for; -1: none yet
    looked: bool = False  # whether a tick has looked at it since something was added
    progressed: bool = False  # whether an instance was seen to have got on in this generation

    def with_end(self, end: Instance) -> Failure:
        """The failure with one more instance that failed."""
        return replace(self, ends=(*self.ends, end), looked=False)


@frozen
class Charges:
    """How much of the failure policy's budgets is used."""

    restarts: int = 0  # charged to programs
    losses: int = 0  # charged to the infrastructure
    # Component -> times of the failures that were charged to it, within its window.
    components: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    recent: tuple[float, ...] = ()  # times of failures within the window of the back-off


@frozen
class Leaving:
    """A container whose instance was removed, but in which a program may be running."""

    instance: str
    generation: int  # an answer for this generation, or a later one, says that no program runs
    until: float  # by then its runner has ended the program, even if it is cut off


@frozen
class Hold:
    """A scheduler holds containers back that a generation waits for, or all of new instances.
    `kind`: QUEUE, QUOTA or NODES."""

    kind: str
    since: float
    of_kind: float  # since when it is of this kind
    back_at: float = math.inf  # when its other containers are given back; infinity without any


@frozen
class AskedStacks:
    """The stacks for which the runners of a generation were asked, as programs in it hang."""

    id: str
    generation: int
    until: float
    expected: tuple[str, ...]  # instances
    hung: tuple[tuple[str, int], ...] = ()  # instances, with the attempt that hangs
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)  # as far as they are told
    stalled: tuple[str, ...] = ()  # instances for whose stall they were asked, and not for a hang
    over: bool = False  # nobody is waited for
    gone: str = ""  # who had ended before, in words


@frozen
class Saving:
    """The programs of a generation are asked to save before they are stopped."""

    id: str
    generation: int
    until: float
    expected: Mapping[str, int]  # instance -> the attempt of its program
    named: bool = False  # whether they are told when to save; until then each says its step
    step: int | None = None  # at whose end they save; None for each its own
    told: Mapping[str, InstanceSave] = dataclasses.field(default_factory=dict)
    over: bool = False  # nobody is waited for


@frozen
class State(Coded):
    """The whole application. Times are those of the events. It is written down for a successor of
    the coordinator (`takeover`): a field's type says how it comes back."""

    job: Job
    instances: Mapping[str, Instance]
    phase: str = FORMING  # FORMING, RUNNING, STOPPING, FINISHED
    generation: int = 1
    started: float = 0.0  # the application, or after a suspension its last resumption
    before: float = 0.0  # seconds from the application's start to `started`
    began: float = 0.0  # the generation
    counted: float = 0.0  # the time from which the gang deadline counts
    hold: Hold | None = None
    seed: int = 0  # of the application's chance
    given_back: int = 0  # times that its containers were given back since the last cluster formed
    ask_at: float = math.inf  # when the containers that were given back are requested again
    not_before: float = 0.0  # back-off: the cluster is not published earlier
    ticked: float = 0.0  # the last tick
    resumed: float = -math.inf  # the end of the coordinator's own last pause
    formed: bool = False  # the generation's cluster is published: programs start
    formed_at: float = -math.inf  # when that was, of the newest generation that has formed
    enough_since: float = math.inf  # since when it could form without the instances that it lacks
    reminded: float = -math.inf  # when runners that wait for long were told last that it goes on
    held: frozenset[str] = frozenset()  # components whose programs may not start yet
    containers: Mapping[str, ContainerInfo] = dataclasses.field(default_factory=dict)
    listing: bool = False  # the gang deadline has passed and the master was asked for containers
    failure: Failure | None = None
    charges: Charges = Charges()
    repeatable: LastFailure = LastFailure()
    charged: int = 0  # the newest generation whose failure, by which another formed, is charged
    leaving: Mapping[str, Leaving] = dataclasses.field(default_factory=dict)  # by container
    join_by: float = math.inf  # deadline for new instances to be ready
    timeline: tuple[Moment, ...] = ()  # times of the coordinator's clock
    feed: FeedStatus | None = None  # the last report of the feed's driver
    stacks: AskedStacks | None = None  # the last ones
    stalled: frozenset[str] = frozenset()  # instances whose stall is told
    saving: Saving | None = None
    # What waits until programs have saved: fewer instances of components, and the end, by a client.
    fewer: Mapping[str, int] = dataclasses.field(default_factory=dict)
    to_stop: str | None = None
    leaves: bool = False  # its master leaves: nothing is decided any more
    suspends: bool = False  # the master waits until programs have saved
    verdict: Verdict | None = None  # decided when STOPPING begins, never changed
    finish_by: float = math.inf  # deadline for the end of STOPPING

    @property
    def decided(self) -> bool:
        return self.verdict is not None

    def noted(
        self,
        time: float,
        text: str,
        kind: str,
        instance: str = "",
        generation: int | None = None,
    ) -> State:
        """The state with one more moment in its timeline. `kind`: see `Moment`; `generation`: by
        default the present one."""
        generation = self.generation if generation is None else generation
        moment = Moment(time, text, kind, instance, generation)
        timeline = (*self.timeline, moment)[-MAX_TIMELINE:]
        return replace(self, timeline=timeline)

    def with_failure(self, **changes: Any) -> State:
        """The state with these changes of the open failure."""
        assert self.failure is not None
        return replace(self, failure=replace(self.failure, **changes))

    def with_instance(self, instance: Instance) -> State:
        """The state with `instance` in place of the one with the same id."""
        return self.with_instances((instance,))

    def with_instances(self, changed: Iterable[Instance]) -> State:
        """The state with the instances `changed` in place of those with the same ids."""
        instances = dict(self.instances)
        instances.update((instance.id, instance) for instance in changed)
        return replace(self, instances=instances)


def new_state(job: Job) -> State:
    """The initial state: all instances of `job`, in its order, each with the container that the
    master requests for it at its start."""
    instances = {}
    for component in job.components:
        for index in range(component.instances):
            name = instance_id(component.name, index)
            instances[name] = Instance(
                name,
                component.name,
                index,
                component.role,
                container=initial_container(name),
            )
    return State(job=job, instances=instances)


def resumed(state: State, earlier: ApplicationStatus) -> State:
    """The initial state of a run that goes on after a suspension, or the loss of its master: the
    next generation of the instances that there were, with the charges and the history. All
    containers are new."""
    generation = (earlier.generation or 0) + 1
    zero = state.started - state.before
    record = earlier.record or Record()

    def here(times: Iterable[float]) -> tuple[float, ...]:
        return tuple(zero + time - earlier.started for time in times)

    found = (
        Instance(
            i.instance,
            i.component,
            parse_instance(i.instance)[1],
            i.role,
            container=initial_container(i.instance),
            requested_in=generation,
            failed_on=record.failed_on.get(i.instance, ()),
            joined=earlier.joined.get(i.instance, 1),
            metrics=i.metrics,
            step=i.step,
        )
        for i in earlier.instances
    )
    instances = {instance.id: instance for instance in found}
    counts = [i.component for i in instances.values()]
    components = (replace(c, instances=counts.count(c.name)) for c in state.job.components)
    return replace(
        state,
        job=replace(state.job, components=tuple(components)),
        instances=instances,
        generation=generation,
        charges=Charges(
            earlier.restarts or 0,
            earlier.losses or 0,
            {component: here(times) for component, times in record.failures.items()},
            here(record.recent),
        ),
        repeatable=record.last,
        given_back=record.given_back,
        timeline=tuple(replace(m, time=zero + m.time - earlier.started) for m in earlier.timeline),
        feed=earlier.feed,
    ).noted(state.started, f"generation {generation} begins", BEGINS)


def success_instances(state: State) -> tuple[Instance, ...]:
    """The instances that must all exit with 0 for the application to succeed: those that the job
    names, by their component or themselves, or else all that end by themselves, or else all."""
    everybody = tuple(i for i in state.instances.values() if not i.joins)
    named = tuple(i for i in everybody if state.job.decides(i.component, i.id))
    ending = tuple(i for i in everybody if i.role not in (*SERVICE_ROLES, "evaluator"))
    return named or ending or everybody


def shown_state(state: State, instance: Instance) -> str:
    """The instance's state as users see it: an instance that was ended because the application had
    succeeded is STOPPED, not KILLED."""
    done = state.verdict is not None and state.verdict.state == names.SUCCEEDED
    return names.STOPPED if done and instance.state == names.KILLED else instance.state


def started(state: State, instance: Instance) -> bool:
    """Whether a program of `instance` may be running, so that its end must be waited for."""
    released = state.formed and instance.component not in state.held
    return released and instance.answer is not None and not instance.ended


def fenced(state: State, instance: Instance) -> float:
    """The time by which the runner of `instance`, if it lost the master after its last heartbeat,
    has killed its program. Infinity if runners do not do that, or it was never heard of."""
    limits = state.job.limits
    if instance.heard is None or not limits.heartbeat_lost:
        return math.inf
    return instance.heard + limits.heartbeat_lost + 2 * limits.heartbeat


def has_left(state: State, instance: Instance) -> bool:
    """Whether no program can still be running in an earlier container of `instance`."""
    return all(leaving.instance != instance.id for leaving in state.leaving.values())


def held_until(state: State) -> float:
    """The end of the time for which a scheduler may hold the application back; infinity for
    none."""
    hold = state.hold
    if hold is None:
        return math.inf
    queue = state.job.limits.queue
    return (hold.since if queue else hold.of_kind) + queue_limit(queue, hold.kind)


def holding(state: State) -> tuple[Instance, ...]:
    """The instances whose containers a scheduler holds back: of those that the generation waits for
    or, while it runs, of the new ones, unless one was granted after the last request. Those come
    first on which it depends how long that may last: who waits for a queue or a quota."""
    if state.phase not in (FORMING, names.RUNNING) or state.decided:
        return ()
    joining = state.phase == names.RUNNING
    everybody = state.instances.values()
    awaited = [
        i for i in everybody if not i.ended and i.intent is not Intent.LATE and i.joins == joining
    ]
    asked = max((i.asked for i in awaited), default=0.0)
    if joining and any(i.granted is not None and i.granted >= asked for i in awaited):
        return ()
    return tuple(sorted((i for i in awaited if i.held), key=lambda i: i.held == names.NODES))


def longer(state: State, seconds: float) -> float:
    """`seconds`, doubled for each time in a row that containers were given back, and up to half of
    that more by chance: applications that wait for each other's containers get out of step, and a
    large one is not always too short of time."""
    times = min(state.given_back, MAX_DOUBLINGS)
    chance = random.Random(f"{state.seed} {state.given_back} {seconds}").random()
    return float(seconds * 2**times * (1 + chance / 2))


def keeps(state: State) -> bool:
    """Whether its containers must not be given back now. A program may live in one of which nothing
    was heard for this generation; or the only checkpoints of the application lie in it."""
    old = [
        i
        for i in state.instances.values()
        if i.requested_in < state.generation and i.heard is not None and not i.ended
    ]
    if any(i.answer is None and not i.joins for i in old):
        return True
    lasts = any(c.settings.text("user.checkpoint.prefix") for c in state.job.components)
    alone = state.job.trains_alone(i.role for i in state.instances.values())
    return alone and not lasts and any(not names.trains_alone((i.role, i.role)) for i in old)


def unheard(state: State) -> tuple[Instance, ...]:
    """The instances whose container was requested and whose runner was not heard of."""
    waiting = (i for i in state.instances.values() if i.container and not i.ended)
    return () if state.decided else tuple(i for i in waiting if i.heard is None)


def live(instance: Instance) -> bool:
    """Whether its runner is up and can be given orders."""
    return instance.stage is not Stage.GONE and instance.heard is not None
