"""The state of the coordinator, as frozen values, and the questions that its policy asks of it."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping

from tfapp.contract import names
from tfapp.contract.exit import LOSS_REASONS, Exit
from tfapp.contract.job import Job
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.metrics import Measure
from tfapp.contract.names import FORMING, SERVICE_ROLES, initial_container, instance_id
from tfapp.contract.status import FeedStatus, Moment, Verdict
from tfapp.coordinator.policy.events import ContainerInfo
from tfapp.frozen import frozen

FINISHED = "FINISHED"  # the phase after STOPPING: the verdict is out, nothing changes any more

MAX_TIMELINE = 100  # moments that are remembered


class Stage(enum.Enum):
    """The stage of an instance in the current generation."""

    REQUESTED = names.REQUESTED  # nothing is known but that its container was requested
    WAITING = names.WAITING  # its runner is there
    RUNNING = names.RUNNING
    STOPPING = names.STOPPING  # it was told to stop
    ENDED = "ENDED"  # its runner has reported the end of its program, and waits
    GONE = "GONE"  # its container has ended, or was ended, or its runner was told that it may go


class Intent(enum.Enum):
    """The coordinator's intent for an instance."""

    RUN = "RUN"  # it takes part
    JOIN = "JOIN"  # it came by flex, and takes part from the next generation on
    RESTART = "RESTART"  # its program starts again where it was, when `due`
    STOP = "STOP"  # it is told to stop when `due`
    IGNORE = "IGNORE"  # it has failed, and the application does without it


@frozen
class Instance:
    """One instance in the current generation."""

    id: str
    component: str
    index: int
    role: str
    stage: Stage = Stage.REQUESTED
    intent: Intent = Intent.RUN
    due: float = math.inf  # of the intent
    container: str = ""  # "" until the master took the request for a later one
    requested_in: int = 1  # the generation for which the container was requested
    joined: int = 1  # the generation from which on it takes part
    host: str = ""  # advertised; "" until its runner is heard of
    attempt: int = 0  # how often its program was restarted in this generation and container
    answer: Answer | None = None
    docker: str = ""  # id of the Docker container of its program
    preparing: str = ""  # what its answer waits for, as its runner says; before, its master
    heard: float | None = None  # when its runner was last heard of
    exit: Exit | None = None  # since it is ENDED or GONE
    report: ExitReport | None = None
    # Of its program, or of the one before that as long as this one has reported nothing.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None

    def measured(self, said: Beat | ExitReport) -> Instance:
        """The instance with what its runner says of its program's metrics."""
        if not said.metrics and said.step is None:
            return self
        return dataclasses.replace(
            self,
            metrics=said.metrics,
            step=said.step,
            steps_per_second=said.steps_per_second,
        )

    @property
    def ended(self) -> bool:
        """Nothing more will come of it in this generation."""
        return self.exit is not None

    @property
    def succeeded(self) -> bool:
        return self.exit is not None and self.exit.code == 0

    @property
    def lost(self) -> bool:
        """Its container, or the runner in it, is not there any more."""
        reason = self.exit.reason if self.exit else ""
        return self.stage is Stage.GONE or reason in LOSS_REASONS

    @property
    def state(self) -> str:
        """One of the states in `contract.names`, for everybody else."""
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

    NONE = "NONE"  # it is not survived as far as is known, or nobody has looked at it
    PROGRAM = "PROGRAM"  # a program starts again where it was
    CONTAINER = "CONTAINER"  # a container is replaced, the others go on
    GENERATION = "GENERATION"  # the next generation forms


@frozen
class Failure:
    """A failure that is yet to be judged."""

    generation: int  # in which it happened
    begun: float
    settled: float  # when the settle time is over
    ends: tuple[Instance, ...]  # the instances that failed, as they ended, in order of arrival
    recovery: Recovery = Recovery.NONE
    told: int = -1  # which of `ends` was the cause when the recovery was last looked at
    looked: bool = False  # whether a tick has looked at it since something was added


@frozen
class Charges:
    """The use that failures have made of the failure policy's budgets."""

    restarts: int = 0  # charged to programs
    losses: int = 0  # charged to the infrastructure
    # When the failures of each component were charged to it; what its window has left is gone.
    components: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    recent: tuple[float, ...] = ()  # when, as far as the back-off remembers


@frozen
class Leaving:
    """A container whose instance is none any more, while a program may live in it."""

    instance: str
    generation: int  # an answer for it, or a later one, says that no program lives
    until: float  # by then its runner has ended the program, even one that hears nothing


@frozen
class State:
    """The whole application. Times are those of the events."""

    job: Job
    instances: Mapping[str, Instance]
    phase: str = FORMING  # FORMING, RUNNING, STOPPING, FINISHED
    generation: int = 1
    started: float = 0.0  # the application
    began: float = 0.0  # the generation
    not_before: float = 0.0  # back-off: the cluster is not published earlier
    ticked: float = 0.0  # the last tick
    resumed: float = -math.inf  # when the coordinator itself went on after it had stood still
    formed: bool = False  # the generation's cluster is published: programs start
    held: frozenset[str] = frozenset()  # components whose programs may not start yet
    containers: Mapping[str, ContainerInfo] = dataclasses.field(default_factory=dict)
    listing: bool = False  # the gang deadline has passed and the master was asked for containers
    failure: Failure | None = None
    charges: Charges = Charges()
    # The generation that failed last, and its cause's exit code and last line (`judging`).
    repeatable: tuple[int, tuple[int, str] | None] = (0, None)
    leaving: Mapping[str, Leaving] = dataclasses.field(default_factory=dict)  # by container
    join_by: float = math.inf  # newcomers that are not ready then are withdrawn
    timeline: tuple[Moment, ...] = ()  # in this process's time
    feed: FeedStatus | None = None  # as its driver has told it last
    verdict: Verdict | None = None  # decided when STOPPING begins, never changed
    finish_by: float = math.inf  # STOPPING ends then at the latest

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
        """The state with one moment more in its timeline. `kind`: see `Moment`; `generation`: by
        default the present one."""
        generation = self.generation if generation is None else generation
        moment = Moment(time, text, kind, instance, generation)
        timeline = (*self.timeline, moment)[-MAX_TIMELINE:]
        return dataclasses.replace(self, timeline=timeline)

    def with_instance(self, instance: Instance) -> State:
        """The state in which `instance` is as given."""
        return self.with_instances((instance,))

    def with_instances(self, changed: Iterable[Instance]) -> State:
        """The state in which these instances are as given."""
        instances = dict(self.instances)
        instances.update((instance.id, instance) for instance in changed)
        return dataclasses.replace(self, instances=instances)


def new_state(job: Job) -> State:
    """Before anything has happened: all instances of `job`, in its order, each with the container
    that the master itself has requested for it."""
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


def success_instances(state: State) -> tuple[Instance, ...]:
    """Those that must all exit 0 for the application to succeed: of the components the job
    names, else all that end by themselves, else all there are."""
    everybody = tuple(i for i in state.instances.values() if i.intent is not Intent.JOIN)
    named = tuple(i for i in everybody if i.component in state.job.success)
    ending = tuple(i for i in everybody if i.role not in (*SERVICE_ROLES, "evaluator"))
    return named or ending or everybody


def shown_state(state: State, instance: Instance) -> str:
    """The instance's state for everybody else. What was ended because the application had succeeded
    was not killed."""
    done = state.verdict is not None and state.verdict.state == names.SUCCEEDED
    return names.STOPPED if done and instance.state == names.KILLED else instance.state


def started(state: State, instance: Instance) -> bool:
    """Whether a program of `instance` may be running, so that its end must be waited for."""
    released = state.formed and instance.component not in state.held
    return released and instance.answer is not None and not instance.ended


def fenced(state: State, instance: Instance) -> float:
    """The time by which a runner that has lost the master since its last heartbeat has ended the
    program of `instance`; infinity where runners do not end it."""
    limits = state.job.limits
    if instance.heard is None or not limits.heartbeat_lost:
        return math.inf
    return instance.heard + limits.heartbeat_lost + 2 * limits.heartbeat


def has_left(state: State, instance: Instance) -> bool:
    """Whether no earlier container of `instance` may still have a program."""
    return all(leaving.instance != instance.id for leaving in state.leaving.values())


def live(instance: Instance) -> bool:
    """Whether a runner is there to be given orders."""
    return instance.stage is not Stage.GONE and instance.heard is not None
