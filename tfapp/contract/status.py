"""The status of an application, as published by its coordinator, and the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import encode, known
from tfapp.contract.exit import Exit
from tfapp.contract.metrics import Measure
from tfapp.contract.names import FINAL_STATES, LOST, STOPPED
from tfapp.frozen import frozen

# ---- How an application ended -----------------------------------------------------------------


@frozen
class Cause:
    """The failure that decided a verdict other than SUCCEEDED."""

    instance: str  # "" when it was no instance (a deadline, a stop request)
    generation: int | None  # None: unknown
    host: str
    container: str
    exit: Exit
    last_lines: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cause:
        values = known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@frozen
class Verdict:
    """The result of an application and the reason for it. `exit_code`: the exit code of `tfapp
    create`."""

    state: str  # one of states.FINAL_STATES
    exit_code: int  # tfapp.errors.ExitCode
    summary: str  # one or two sentences
    cause: Cause | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        values = known(cls, data)
        if data.get("cause") is not None:
            values["cause"] = Cause.from_dict(data["cause"])
        return cls(**values)


# ---- What the coordinator publishes of an application and a client reads ----------------------


@frozen
class InstanceStatus:
    """The status of one instance."""

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InstanceStatus:
        values = known(cls, data)
        if data.get("exit") is not None:
            values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


# What a moment of an application's history is about (`Moment.kind`).
BEGINS = "begins"  # a generation begins to form
STARTS = "starts"  # the programs of a generation start
FAILURE = "failure"  # of an instance
IGNORED = "ignored"  # a failure that the application does without
RESTARTED = "restarted"  # one instance's program starts again, the others go on
REPLACED = "replaced"  # an instance gets another container
RESIZED = "resized"  # a component gets another number of instances
ENDS = "ends"  # the verdict is decided


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
class Curve:
    """The values of a metric over time. `points`: (seconds since the start of the application, step
    or None, value), in the order of time."""

    instance: str
    metric: str
    points: tuple[tuple[float, int | None, Measure], ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Curve:
        values = known(cls, data)
        values["points"] = tuple(tuple(point) for point in data["points"])
        return cls(**values)

    def thinner(self) -> Curve:
        """The curve with every second point, including the newest."""
        return dataclasses.replace(self, points=self.points[:-1][::2] + self.points[-1:])


@frozen
class FeedStatus:
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeedStatus:
        return cls(**known(cls, data))


@frozen
class ApplicationStatus:
    """The state of an application as its coordinator publishes it. Times: seconds since 1970.
    Numbers are None where it has ended without a last status of its coordinator."""

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
    # Instances that came by flex -> the generation from which on they take part.
    joined: Mapping[str, int] = dataclasses.field(default_factory=dict)
    stop_grace: float = 30.0  # seconds that programs get to end when it is stopped
    checkpoint_dir: str = ""  # a path or a URL; "" where it has none that lasts
    feed: FeedStatus | None = None  # None where nothing is fed

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApplicationStatus:
        values = known(cls, data)
        values["timeline"] = tuple(Moment(**known(Moment, m)) for m in data.get("timeline", ()))
        values["curves"] = tuple(Curve.from_dict(c) for c in data.get("curves", ()))
        values["instances"] = tuple(InstanceStatus.from_dict(i) for i in data["instances"])
        if data.get("verdict") is not None:
            values["verdict"] = Verdict.from_dict(data["verdict"])
        if data.get("feed") is not None:
            values["feed"] = FeedStatus.from_dict(data["feed"])
        return cls(**values)


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
        status, state=verdict.state, updated=now, instances=instances, verdict=verdict
    )


# ---- The last word of an application that YARN keeps: its final diagnostics -------------------

MAX_DIAGNOSTICS_JSON = 16 * 1024  # bytes of the last line of the final diagnostics
FEW_POINTS = 8  # a curve of so many is not made thinner any more, but left out


def format_diagnostics(status: ApplicationStatus) -> str:
    """The final diagnostics of an application: its verdict in sentences, then one last line of
    compact JSON (`ApplicationStatus`), at most MAX_DIAGNOSTICS_JSON bytes: points of curves, the
    metrics of all but each component's first instance, each instance's rows of a feed, the
    timeline's older half, and instances' details, are dropped before the verdict is."""
    verdict = status.verdict
    assert verdict is not None, "only a finished application has diagnostics"
    return f"{verdict.summary}\n{fitting(status, MAX_DIAGNOSTICS_JSON).decode()}"


def fitting(status: ApplicationStatus, limit: int) -> bytes:
    """`status` as compact JSON of at most `limit` bytes. The least important details are
    dropped."""
    line = encode(status)
    while len(line) > limit and status.curves:
        few = all(len(curve.points) <= FEW_POINTS for curve in status.curves)
        curves = () if few else tuple(curve.thinner() for curve in status.curves)
        status = dataclasses.replace(status, curves=curves)
        line = encode(status)
    if len(line) > limit:
        firsts = {i.component: i.instance for i in reversed(status.instances)}
        fewer = tuple(
            i if firsts[i.component] == i.instance else dataclasses.replace(i, metrics={})
            for i in status.instances
        )
        feed = status.feed and dataclasses.replace(status.feed, instances={})
        status = dataclasses.replace(status, instances=fewer, feed=feed)
        line = encode(status)
    while len(line) > limit and status.timeline:
        newer = status.timeline[(len(status.timeline) + 1) // 2 :]
        status = dataclasses.replace(status, timeline=newer)
        line = encode(status)
    if len(line) > limit:
        slim = tuple(dataclasses.replace(i, exports={}, metrics={}) for i in status.instances)
        line = encode(dataclasses.replace(status, instances=slim))
    if len(line) > limit:
        line = encode(dataclasses.replace(status, instances=()))
    return line


def parse_diagnostics(text: str) -> ApplicationStatus | None:
    """Parses the output of `format_diagnostics`; None if `text` does not end with it."""
    last = text.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("{"):
        return None
    try:
        return ApplicationStatus.from_dict(json.loads(last))
    except (ValueError, KeyError, TypeError):
        return None
