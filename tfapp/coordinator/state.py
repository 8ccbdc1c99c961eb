"""What the coordinator knows, as frozen values, and the questions its policy asks of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from tfapp.contract.exit import Exit
from tfapp.contract.failure import LOSS_REASONS
from tfapp.contract.instances import initial_container, instance_id
from tfapp.contract.job import Job
from tfapp.contract.reports import Answer, ExitReport
from tfapp.contract.roles import SERVICE_ROLES
from tfapp.contract.states import FORMING, REQUESTED
from tfapp.contract.verdict import Verdict
from tfapp.coordinator.events import ContainerInfo

FINISHED = "FINISHED"  # the phase after STOPPING: the verdict is out, nothing changes any more

# A program that was ended from outside, or whose container was: the likelier cause of others.
OUTSIDE_REASONS = (*LOSS_REASONS, "signal", "memory", "hang")
MAX_TIMELINE = 100  # moments that are remembered


@dataclasses.dataclass(frozen=True)
class Instance:
    """One instance in the current generation. `state` is one of `contract.states`."""

    id: str
    component: str
    index: int
    role: str
    state: str = REQUESTED
    container: str = ""  # "" until the master took the request for a later one
    requested_in: int = 1  # the generation for which the container was requested
    host: str = ""  # advertised; "" until its runner is heard of
    container_ended: bool = False
    joining: bool = False  # came by flex, and takes part from the next generation on
    attempt: int = 0  # how often its program was restarted in this generation and container
    restart_at: float = math.inf  # when its program is to be restarted
    answer: Answer | None = None
    docker: str = ""  # id of the Docker container of its program
    preparing: str = ""  # what its answer waits for, as its runner says
    heard: float | None = None  # when its runner was last heard of
    exit: Exit | None = None
    report: ExitReport | None = None
    stop_at: float = math.inf  # when it is to be told to stop
    stop_ordered: bool = False
    dismissed: bool = False  # its runner was told that it may go, or its container is being ended
    ignored: bool = False  # its failure is one that the application does without

    @property
    def lost(self) -> bool:
        """Its container, or the runner in it, is not there any more."""
        gone = self.exit is not None and self.exit.reason in LOSS_REASONS
        return self.container_ended or self.dismissed or gone

    @property
    def ended(self) -> bool:
        """Nothing more will come of it in this generation."""
        return self.exit is not None or self.container_ended


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure whose cause is settled at `due`, unless a likelier cause comes before."""

    culprit: Instance  # the cause as far as it is known, as it had ended
    first: Instance  # who failed first
    generation: int  # in which it failed
    due: float
    outside: bool  # the culprit was ended from outside
    restarted: bool = False  # the program that failed first starts again meanwhile, alone


@dataclasses.dataclass(frozen=True)
class Leaving:
    """A container whose instance is none any more, while a program may live in it."""

    instance: str
    generation: int  # an answer for it, or a later one, says that no program lives
    until: float  # by then its runner has ended the program, even one that hears nothing


@dataclasses.dataclass(frozen=True)
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
    restarts: int = 0  # charged to programs
    losses: int = 0  # charged to the infrastructure
    # When the failures of each component were charged to it; what its window has left is gone.
    charged: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    restarted: tuple[float, ...] = ()  # when, as far as the back-off remembers
    leaving: Mapping[str, Leaving] = dataclasses.field(default_factory=dict)  # by container
    join_by: float = math.inf  # who joins by flex and is not ready then is withdrawn
    timeline: tuple[tuple[float, str], ...] = ()
    verdict: Verdict | None = None  # decided when STOPPING begins, never changed
    finish_by: float = math.inf  # STOPPING ends then at the latest

    @property
    def decided(self) -> bool:
        return self.verdict is not None

    def noted(self, time: float, text: str) -> State:
        """The state with one moment more in its timeline."""
        timeline = (*self.timeline, (time, text))[-MAX_TIMELINE:]
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
    everybody = tuple(i for i in state.instances.values() if not i.joining)
    named = tuple(i for i in everybody if i.component in state.job.success)
    ending = tuple(i for i in everybody if i.role not in (*SERVICE_ROLES, "evaluator"))
    return named or ending or everybody


def started(state: State, instance: Instance) -> bool:
    """Whether a program of `instance` may be running, so that its end must be waited for."""
    released = state.formed and instance.component not in state.held
    return released and instance.answer is not None and not instance.ended


def fenced(state: State, instance: Instance) -> float:
    """When the runner of `instance`, if it has reached the master no more since it was last heard
    of, has ended its program; infinity where runners do not."""
    limits = state.job.limits
    if instance.heard is None or not limits.heartbeat_lost:
        return math.inf
    return instance.heard + limits.heartbeat_lost + 2 * limits.heartbeat


def has_left(state: State, instance: Instance) -> bool:
    """Whether nothing lives of who had the number of `instance` before."""
    return all(leaving.instance != instance.id for leaving in state.leaving.values())


def live(instance: Instance) -> bool:
    """Whether a runner is there to be given orders."""
    return not instance.container_ended and instance.heard is not None
