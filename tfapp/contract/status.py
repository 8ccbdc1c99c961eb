"""The status of an application, as published by its coordinator, and the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tfapp.contract.encoding import Coded, encode
from tfapp.contract.exit import Exit
from tfapp.contract.metrics import Measure
from tfapp.contract.names import FINAL_STATES, LOST, STOPPED
from tfapp.contract.usage import Usage, amount
from tfapp.frozen import frozen

T = TypeVar("T")

# ---- How an application ended -----------------------------------------------------------------


@frozen
class Cause(Coded):
    """The failure that decided a verdict other than SUCCEEDED."""

    instance: str  # "" when it was no instance (a deadline, a stop request)
    generation: int | None  # None: unknown
    host: str
    container: str
    exit: Exit
    last_lines: str = ""


@frozen
class Verdict(Coded):
    """The result of an application and the reason for it. `exit_code`: the exit code of `tfapp
    create`."""

    state: str  # one of states.FINAL_STATES
    exit_code: int  # tfapp.errors.ExitCode
    summary: str  # one or two sentences
    cause: Cause | None = None


# ---- What it runs -----------------------------------------------------------------------------


@frozen
class RanComponent(Coded):
    """What each instance of a component runs, and what it gets. `program`: as the user has named
    it, with its arguments; "" if the package runs one of its own. `python`: the interpreter, in
    `image` if that is not ""."""

    component: str
    program: str
    instances: int  # as it was submitted
    memory: int  # MiB
    vcores: int
    gpus: int
    python: str
    image: str


@frozen
class Ran(Coded):
    """What an application runs. `options`: those that were given, "KEY=VALUE", without the values
    of variables. `tfapp`: its version. `user`: who has submitted it. `commit`: that of git in the
    program's folder, with " (changed)" where its files have changed since; "" where there is
    none."""

    components: tuple[RanComponent, ...]
    options: tuple[str, ...]
    tfapp: str
    user: str = ""
    commit: str = ""


# ---- What the coordinator publishes of an application and a client reads ----------------------


MOST_OUTPUTS = 20  # files of an instance that are told by name


@frozen
class Outputs(Coded):
    """The files that a program has left in its working folder. Files: (path below it, bytes), at
    most MOST_OUTPUTS."""

    folder: str = ""  # where they are kept; "" where none is
    files: tuple[tuple[str, int], ...] = ()  # those that are kept
    count: int = 0  # of all that are kept
    size: int = 0  # of all that are kept, in bytes
    left: tuple[tuple[str, int], ...] = ()  # those that are not kept
    left_count: int = 0
    why: str = ""  # some are not kept

    def text(self, place: bool = True) -> str:
        """All of it as one line; "" where the program has left nothing. `place`: with the
        folder."""
        where = f" in {self.folder}" if place else ""
        kept = f"keeps {_listed(self.files, self.count)}{where}" if self.count else ""
        left = f"does not keep {_listed(self.left, self.left_count)}: {self.why}"
        return "; ".join(part for part in (kept, left if self.left_count else "") if part)


def _listed(files: Sequence[tuple[str, int]], count: int) -> str:
    named = ", ".join(f"{path} ({amount(size)})" for path, size in files[:_NAMED])
    return named if count <= _NAMED else f"{named} and {count - _NAMED:,} more files"


_NAMED = 3


@frozen
class InstanceStatus(Coded):
    instance: str
    component: str
    role: str
    state: str
    container: str = ""
    host: str = ""
    exports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    exit: Exit | None = None
    docker: str = ""  # id of the Docker container that the program runs, or ran, in
    preparing: str = ""  # what it waits for before it is there, as its runner or master says
    seconds: float | None = None  # how long its program ran, once that has ended
    # What its program has reported last, or the one before that. `metrics.floats` has the numbers.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None  # as measured last; None: not known
    epoch: int | None = None  # counted from 1; known where no step is
    total: int | None = None  # the step at which the training ends; None: not told
    usage: Usage | None = None  # of its machine, by its program; None: not known
    # Seconds since 1970: its last step, where it has made none for much longer than usual.
    no_step_since: float | None = None
    # Its number among those of its role in TF_CONFIG, where that is not the number in its name.
    task: int | None = None
    outputs: Outputs | None = None  # of its program, once that has ended
    # Name -> version of what its program runs with, from the first instance of a component.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The part of the training that is done, from 0 to 1. None: not known."""
        if self.step is None or not self.total or not 0 <= self.step <= self.total:
            return None
        return self.step / self.total

    @property
    def left(self) -> float | None:
        """Seconds until the training ends at its present speed. None: not known."""
        if self.share is None or not self.steps_per_second or self.steps_per_second <= 0:
            return None
        return (self.total - self.step) / self.steps_per_second  # type: ignore[operator]


# A metric: the seconds of a step that an instance has needed itself, without what it has spent in
# collectives. tfapp.program.keras has it too.
OWN_STEP = "own_step_seconds"
SLOW = 1.5  # so many times that of the others is told


def how_long(seconds: float) -> str:
    """A time in its two largest units: "12s", "3m05s", "2h07m", "4d01h"."""
    left = max(round(seconds), 0)
    if left < 60:
        return f"{left}s"
    if left < 3600:
        return f"{left // 60}m{left % 60:02}s"
    if left < 86400:
        return f"{left // 3600}h{left % 3600 // 60:02}m"
    return f"{left // 86400}d{left % 86400 // 3600:02}h"


# What a moment of an application's history is about (`Moment.kind`).
BEGINS = "begins"  # a generation begins to form
STARTS = "starts"  # the programs of a generation start
FAILURE = "failure"  # of an instance
IGNORED = "ignored"  # a failure that the application does without
RESTARTED = "restarted"  # one instance's program starts again, the others go on
REPLACED = "replaced"  # an instance gets another container
GIVEN_BACK = "given-back"  # all containers, because a scheduler held others back
RESIZED = "resized"  # a component gets another number of instances
SUSPENDS = "suspends"  # everything is ended, and begins again when the application is resumed
SAVES = "saves"  # programs have saved before a planned stop, or have not
TAKEN_OVER = "taken-over"  # the coordinator was lost, and another one goes on
STALLS = "stalls"  # instances make no step any more, or make some again
ENDS = "ends"  # the verdict is decided
SESSION = "session"  # a user asks for a session beside a program: `tfapp exec`
AFTER_END = "after-end"  # what was to follow has failed: the history, or telling the verdict


@frozen
class Moment:
    """An event in the history of an application. `time`: seconds since 1970. `kind`: one of the
    constants above; "" from older versions. `instance`: "" for an event of the whole application.
    `generation`: the number of the cluster at that time."""

    time: float
    text: str
    kind: str = ""
    instance: str = ""
    generation: int | None = None


@frozen
class Curve(Coded):
    """The values of a metric over time. `points`: (seconds since the start of the application, step
    or None, value), in the order of time."""

    instance: str
    metric: str
    points: tuple[tuple[float, int | None, Measure], ...]

    def thinner(self) -> Curve:
        """The curve with every second point, including the newest."""
        return dataclasses.replace(self, points=self.points[:-1][::2] + self.points[-1:])


@frozen
class Series(Coded):
    """What an instance has used or told at the times of `Samples`, or the lowest, middle or highest
    of a component's instances. `what`: "cpu" (processors), "memory" (MiB), "gpu" (GPUs) or
    "steps_per_second"; the name of a metric where its `program` tells it. `values`: a number or
    metrics.UNKNOWN for each time, with spaces between them. A text, because it costs nothing to
    publish."""

    who: str
    what: str
    values: str
    of: str = ""
    program: bool = False


@frozen
class Samples(Coded):
    """What all instances have used and told over time. `times`: seconds since the application's
    start."""

    times: tuple[float, ...]
    series: tuple[Series, ...]

    def thinner(self) -> Samples:
        """With every second sample, including the newest."""

        def half(values: Sequence[T]) -> Sequence[T]:
            return values[(len(values) + 1) % 2 :: 2]

        series = (
            dataclasses.replace(one, values=" ".join(half(one.values.split())))
            for one in self.series
        )
        return Samples(tuple(half(self.times)), tuple(series))


@frozen
class FeedStatus(Coded):
    """The counters of a feed from Spark, from the last report of its driver."""

    rows: int = 0  # rows that are with the programs; once `over`, rows that the programs get
    # Rows by instance, in the present generation of programs.
    instances: Mapping[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0  # from the first row to the newest
    rows_per_second: float | None = None  # of late; None: nothing is measured now
    dropped: int = 0  # rows at the end that make no full batch for every program
    lost: int = 0  # rows of programs that failed without a state that has them
    over: bool = False  # no program gets more
    stopped: bool = False  # because the programs want no more
    waits: str = ""  # why no row moves now, "" when rows move
    error: str = ""  # why it has failed


@frozen
class Held(Coded):
    """What holds all back that an application has asked a scheduler for. Times: seconds since
    1970."""

    kind: str  # QUEUE, QUOTA or NODES
    since: float
    until: float | None = None  # when it is given up; None: never


@frozen
class LastFailure(Coded):
    """What is compared with the next failure (coordinator.policy.failure_policy): the generation
    that failed last, the exit code and last line of its cause (None: not comparable), and what all
    instances had reported."""

    generation: int = 0
    signature: tuple[int, str] | None = None
    step: int | None = None  # the highest
    metrics: tuple[Mapping[str, Measure], ...] = ()


@frozen
class Record(Coded):
    """What the next coordinator of an application has to know beside all that a status shows.
    Times: seconds since 1970."""

    verdict: Verdict | None = None  # decided, while programs are still being stopped
    # Component -> times of the failures that were charged to it, within its window.
    failures: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    recent: tuple[float, ...] = ()  # times of failures within the window of the back-off
    last: LastFailure = LastFailure()
    given_back: int = 0  # times that all containers were, since the last cluster formed
    # Instance -> the machines on which it was lost.
    failed_on: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@frozen
class ApplicationStatus(Coded):
    """The state of an application as its coordinator publishes it: its view, and with `record` all
    that another coordinator needs to go on. Times: seconds since 1970. Numbers are None where it
    has ended without a last status of its coordinator."""

    name: str
    state: str
    generation: int | None
    started: float
    updated: float
    instances: tuple[InstanceStatus, ...]
    verdict: Verdict | None = None
    restarts: int | None = 0  # after failures of programs
    losses: int | None = 0  # restarts after losses by the infrastructure
    timeline: tuple[Moment, ...] = ()  # the newest last
    curves: tuple[Curve, ...] = ()  # of each component's first instance
    samples: Samples | None = None  # of all instances; None: there are none yet
    # Instances that came after the first generation -> that from which on they take part.
    joined: Mapping[str, int] = dataclasses.field(default_factory=dict)
    stop_grace: float = 30.0  # seconds that programs get to end when it is stopped
    checkpoint_dir: str = ""  # a path or a URL; "" where it has none that lasts
    storage_schemes: str = ""  # those of URLs that it opens by site.global.storage.schemes
    feed: FeedStatus | None = None  # None where nothing is fed
    ran: Ran | None = None  # None where no coordinator has told
    held: Held | None = None  # None where something was granted
    record: Record | None = None  # None once there is a verdict

    @property
    def decided(self) -> Verdict | None:
        """The verdict, also while programs are still being stopped."""
        return self.verdict or (self.record.verdict if self.record else None)

    @property
    def absent(self) -> tuple[InstanceStatus, ...]:
        """The instances without which the present generation runs: they join a later one."""
        now = self.generation or 0
        return tuple(i for i in self.instances if self.joined.get(i.instance, 0) > now)

    @property
    def size(self) -> str:
        """How many instances take part: "8", or "6 of 8"."""
        total, absent = len(self.instances), len(self.absent)
        return f"{total - absent} of {total}" if absent else str(total)

    @property
    def survived(self) -> tuple[Moment, ...]:
        """The failures after which it went on, as far as the timeline has them."""
        return tuple(moment for moment in self.timeline if moment.kind == FAILURE)

    def __repr__(self) -> str:
        """One line, for who looks at it in a notebook or a debugger."""
        words = self.verdict.summary if self.verdict else f"{self.size} instances"
        return f"<{self.name}: {self.state}, {words}>"


def conclude(
    status: ApplicationStatus, verdict: Verdict, now: float, unfinished: str
) -> ApplicationStatus:
    """`status` with a verdict. Instances that have not ended get the state `unfinished`."""
    finals = (*FINAL_STATES, LOST, STOPPED)
    instances = tuple(
        i if i.state in finals else dataclasses.replace(i, state=unfinished)
        for i in status.instances
    )
    return dataclasses.replace(
        status,
        state=verdict.state,
        updated=now,
        instances=instances,
        verdict=verdict,
        record=None,
    )


# ---- The last word of an application that YARN keeps: its final diagnostics -------------------

MAX_DIAGNOSTICS_JSON = 16 * 1024  # bytes of the last line of the final diagnostics
FEW_POINTS = 8  # a curve of so many is not made thinner any more, but left out


def format_diagnostics(status: ApplicationStatus) -> str:
    """The final diagnostics of an application: its verdict in sentences, then one last line of
    compact JSON (`ApplicationStatus`), at most MAX_DIAGNOSTICS_JSON bytes: samples, points of
    curves, the metrics and most outputs of all but each component's first instance, rows of a feed,
    what ran, the timeline's older half, and instances' details, are dropped before the verdict
    is."""
    verdict = status.verdict
    assert verdict is not None, "only a finished application has diagnostics"
    return f"{verdict.summary}\n{fitting(status, MAX_DIAGNOSTICS_JSON).decode()}"


def fitting(status: ApplicationStatus, limit: int) -> bytes:
    """`status` as compact JSON of at most `limit` bytes. The least important details are
    dropped."""
    line = encode(status)
    while len(line) > limit and status.samples:
        few = len(status.samples.times) <= FEW_POINTS
        samples = None if few else status.samples.thinner()
        status = dataclasses.replace(status, samples=samples)
        line = encode(status)
    while len(line) > limit and status.curves:
        few = all(len(curve.points) <= FEW_POINTS for curve in status.curves)
        curves = () if few else tuple(curve.thinner() for curve in status.curves)
        status = dataclasses.replace(status, curves=curves)
        line = encode(status)
    if len(line) > limit:
        firsts = {i.component: i.instance for i in reversed(status.instances)}
        fewer = tuple(
            i if firsts[i.component] == i.instance else _with_fewer_details(i)
            for i in status.instances
        )
        feed = status.feed and dataclasses.replace(status.feed, instances={})
        status = dataclasses.replace(status, instances=fewer, feed=feed, ran=None)
        line = encode(status)
    while len(line) > limit and status.timeline:
        newer = status.timeline[(len(status.timeline) + 1) // 2 :]
        status = dataclasses.replace(status, timeline=newer)
        line = encode(status)
    if len(line) > limit:
        slim = [
            _without_defaults(dataclasses.replace(i, exports={}, metrics={}, outputs=None))
            for i in status.instances
        ]
        line = encode({**dataclasses.asdict(status), "instances": slim})
    if len(line) > limit:
        line = encode(dataclasses.replace(status, instances=()))
    return line


def _with_fewer_details(instance: InstanceStatus) -> InstanceStatus:
    outputs = instance.outputs
    if outputs is not None:
        named = outputs.files[:_NAMED], outputs.left[:_NAMED]
        outputs = dataclasses.replace(outputs, files=named[0], left=named[1])
    return dataclasses.replace(instance, metrics={}, outputs=outputs)


def _without_defaults(instance: InstanceStatus) -> dict[str, Any]:
    """Its fields, but for those that `from_dict` fills in."""
    empty: tuple[Any, ...] = (None, "", {}, ())
    return {k: value for k, value in dataclasses.asdict(instance).items() if value not in empty}


def parse_diagnostics(text: str) -> ApplicationStatus | None:
    """Parses the output of `format_diagnostics`; None if `text` does not end with it."""
    last = text.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("{"):
        return None
    try:
        return ApplicationStatus.from_dict(json.loads(last))
    except ValueError:
        return None
