"""Publishes the application's status and progress, a few times a second at most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tfapp.contract.encoding import encode
from tfapp.contract.metrics import Point
from tfapp.contract.names import FORMING, KEY_STATUS, RUNNING, WAITING
from tfapp.contract.status import ApplicationStatus, Curve, Held, InstanceStatus, Record
from tfapp.coordinator.policy.judging import charged
from tfapp.coordinator.policy.stacks import stalls
from tfapp.coordinator.policy.state import (
    FINISHED,
    Instance,
    State,
    held_until,
    shown_state,
    success_instances,
)
from tfapp.coordinator.samples import Sampler
from tfapp.course import MAX_CURVES, thinned
from tfapp.frozen import replace
from tfapp.protocol.connection import Connection

# Least seconds between two publications, unless the application's own state changes.
INTERVAL = 0.2
# The same if only the progress of preparations is new, which every heartbeat reports.
PREPARING_INTERVAL = 5.0
# The same if only usage is new, which every heartbeat reports, or metrics, and the additional
# seconds for each instance: the status of a thousand instances with metrics is a megabyte.
USAGE_INTERVAL = 5.0
METRICS_INTERVAL = 1.0
INTERVAL_EACH = 0.02

_PREPARING = frozenset({"preparing"})
_METRICS = frozenset({"metrics", "step", "steps_per_second", "epoch", "total"})
_USAGE = frozenset({"usage"})


class Publisher:
    """Publishes the status of one application. `clock` returns the loop's monotonic seconds,
    `calendar` seconds since 1970. The calendar is read once, at the start: if it is set meanwhile,
    the times of a status still have their true distances."""

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        calendar: Callable[[], float],
    ):
        self._connection = connection
        self._clock = clock
        self.since = calendar()  # the application's start, seconds since 1970
        self._calendar_offset = self.since - clock()
        self._last: ApplicationStatus | None = None
        self._curves = Curves()
        self._sampler = Sampler()
        self.newest: ApplicationStatus | None = None  # as it was published
        self._phase = ""
        self._progress = -1.0
        self._published = -math.inf
        self._due = math.inf

    def resume(self, earlier: ApplicationStatus) -> float:
        """Goes on with the application of an earlier coordinator. Returns the seconds since its
        start."""
        self.since = earlier.started
        self._curves = Curves(earlier.curves)
        self._sampler = Sampler(earlier.samples)
        return max(self._now() - earlier.started, 0.0)

    def take_over(self, since: float, published: ApplicationStatus | None) -> None:
        """Goes on for a coordinator that was lost, with an application that has begun at `since`.
        `published`: its last status."""
        self.since = since
        self._curves = Curves(published.curves if published else ())
        self._sampler = Sampler(published.samples if published else None)

    def due(self) -> float:
        """The time of the next publication; infinity if none is pending."""
        return self._due

    def publish(self, state: State, at_once: bool = False) -> None:
        """Publishes the status if it has changed and is not too early, and the progress if that has
        changed. `at_once`: something waits for that, and it is not too early."""
        self._due = math.inf
        if not at_once and state.phase == self._phase and self._too_early(INTERVAL):
            return
        now = status(state, self.since, 0.0)
        if now == self._last:
            return
        self._curves.observe(state.instances.values(), self.since)
        self._sampler.observe(state.instances.values(), self._now() - self.since)
        if not at_once and self._too_early(_interval(self._last, now)):
            return
        self._last, self._phase, self._published = now, state.phase, self._clock()
        self.newest = self.status(state)
        self._connection.put(KEY_STATUS, encode(self.newest))
        done = progress(state)
        if done != self._progress:
            self._progress = done
            self._connection.set_progress(done)

    def status(self, state: State) -> ApplicationStatus:
        now = status(state, self.since, self._now())
        return replace(now, curves=self._curves.known(), samples=self._sampler.known)

    def _now(self) -> float:
        """Seconds since 1970."""
        return self._calendar_offset + self._clock()

    def _too_early(self, interval: float) -> bool:
        """Whether the last publication is less than `interval` seconds ago. If so, the next one is
        due after `interval`."""
        due = self._published + interval
        if self._clock() >= due:
            return False
        self._due = due
        return True


def _interval(last: ApplicationStatus | None, now: ApplicationStatus) -> float:
    """Seconds after the last publication for which the changes in `now` may wait: 0 if more has
    changed than preparations, usage, metrics and the counters of a feed."""
    if last is None or not _same(vars(last), vars(now), {"instances", "feed"}):
        return 0.0
    if len(last.instances) != len(now.instances):
        return 0.0
    pairs = [(vars(a), vars(b)) for a, b in zip(last.instances, now.instances) if a != b]
    if not all(_same(a, b, _PREPARING | _USAGE | _METRICS) for a, b in pairs):
        return 0.0
    each = INTERVAL_EACH * len(now.instances)
    if last.feed != now.feed or not all(_same(a, b, _PREPARING | _USAGE) for a, b in pairs):
        return METRICS_INTERVAL + each
    quiet = all(_same(a, b, _PREPARING) for a, b in pairs)
    return PREPARING_INTERVAL if quiet else USAGE_INTERVAL + each


def _same(a: Mapping[str, Any], b: Mapping[str, Any], apart_from: Collection[str]) -> bool:
    return all(a[name] == b[name] for name in a if name not in apart_from)


def status(state: State, since: float, now: float) -> ApplicationStatus:
    """The published form of `state`. `since`, `now`: the application's start and the current time,
    seconds since 1970. The verdict is shown once the application has finished, not when it is
    decided."""
    charges = charged(state).charges
    zero = since - (state.started - state.before)  # seconds since 1970 of the clock's 0
    final = state.phase == FINISHED and state.verdict is not None
    tasks, members = _tasks(state), [i for i in state.instances.values() if not i.joins]
    firsts = {i.component: i for i in reversed(members) if i.answer}
    told = {i.id: i.answer.versions for i in firsts.values() if i.answer}
    return ApplicationStatus(
        name=state.job.name,
        state=state.verdict.state if final and state.verdict else _shown_phase(state),
        generation=state.generation,
        started=since,
        updated=now,
        instances=tuple(
            InstanceStatus(
                instance=instance.id,
                component=instance.component,
                role=instance.role,
                state=shown_state(state, instance),
                container=instance.container,
                host=instance.host,
                exports=instance.answer.exports if instance.answer else {},
                exit=instance.exit,
                docker=instance.docker,
                preparing="" if instance.ended else instance.preparing,
                seconds=instance.report.seconds if instance.report else None,
                metrics=instance.metrics,
                step=instance.step,
                steps_per_second=instance.steps_per_second,
                epoch=instance.epoch,
                total=instance.total,
                usage=instance.usage and instance.total_usage,
                no_step_since=_last_step(instance, zero),
                task=tasks.get(instance.id),
                outputs=instance.report.outputs if instance.report else None,
                versions=told.get(instance.id, {}),
            )
            for instance in state.instances.values()
        ),
        verdict=state.verdict if final else None,
        restarts=charges.restarts,
        losses=charges.losses,
        timeline=tuple(
            replace(moment, time=round(zero + moment.time, 3)) for moment in state.timeline
        ),
        joined={i.id: i.joined for i in state.instances.values() if i.joined > 1},
        stop_grace=_time_to_stop(state),
        checkpoint_dir=state.job.checkpoint_dir,
        storage_schemes=state.job.storage_schemes,
        feed=state.feed,
        ran=state.job.ran,
        held=_held(state, zero),
        record=None if final else _record(state, zero),
    )


def _time_to_stop(state: State) -> float:
    limits, saves = state.job.limits, any(i.saves for i in state.instances.values())
    return limits.stop_grace + (limits.save_grace if saves else 0.0)


def _tasks(state: State) -> dict[str, int]:
    """As `InstanceStatus.task`, of the present cluster."""
    counts: Counter[str] = Counter()
    found = {}
    for instance in state.instances.values():
        answer = instance.answer
        if not state.formed or instance.joins or not answer or answer.generation < state.generation:
            continue
        if counts[instance.role] != instance.index:
            found[instance.id] = counts[instance.role]
        counts[instance.role] += 1
    return found


def _last_step(instance: Instance, zero: float) -> float | None:
    """As `_held`; None where its program makes steps as usual."""
    if instance.pace is None or not stalls(instance):
        return None
    return round(zero + instance.pace.at, 3)


def _record(state: State, zero: float) -> Record:
    """`zero` is added to a time of the coordinator's clock: seconds since 1970."""

    def known(times: Iterable[float]) -> tuple[float, ...]:
        return tuple(round(zero + time, 3) for time in times)

    now = charged(state)
    failures = {component: known(times) for component, times in now.charges.components.items()}
    return Record(
        state.verdict,
        failures,
        known(now.charges.recent),
        now.repeatable,
        state.given_back,
        {i.id: i.failed_on for i in state.instances.values() if i.failed_on},
    )


def _held(state: State, zero: float) -> Held | None:
    """`zero` is added to a time of the coordinator's clock: seconds since 1970."""
    if state.hold is None or state.decided:
        return None
    until = held_until(state)
    return Held(
        state.hold.kind,
        round(zero + state.hold.since, 3),
        None if until == math.inf else round(zero + until, 3),
    )


def _shown_phase(state: State) -> str:
    """The phase to show: FORMING, not RUNNING, until one of the programs runs."""
    members = (i for i in state.instances.values() if not i.joins)
    waits = all(shown_state(state, i) == WAITING for i in members)
    return FORMING if state.phase == RUNNING and waits else state.phase


def progress(state: State) -> float:
    """The share of the application that is done, from 0 to 1: 0.1 for forming the cluster, the rest
    by the share of instances that have succeeded among those that must."""
    if state.phase == FORMING:
        answered = sum(i.answer is not None for i in state.instances.values())
        return 0.1 * answered / max(len(state.instances), 1)
    needed = success_instances(state)
    done = sum(instance.succeeded for instance in needed)
    return 0.1 + 0.9 * done / max(len(needed), 1)


class Curves:
    """The metrics of each component's first instance over time: MAX_CURVES of an application. The
    first is that which takes part."""

    def __init__(self, earlier: Iterable[Curve] = ()) -> None:
        self._curves = {(c.instance, c.metric): _Curve(c.points) for c in earlier}

    def observe(self, instances: Iterable[Instance], since: float) -> None:
        """Takes over what the programs have told. `since`: the application's start, seconds since
        1970."""
        seen: set[str] = set()
        for instance in instances:
            if instance.component in seen or instance.joins:
                continue
            seen.add(instance.component)
            for metric, points in instance.points.items():
                key = instance.id, metric
                if key not in self._curves and len(self._curves) < MAX_CURVES:
                    self._curves[key] = _Curve()
                if key in self._curves and points:
                    self._curves[key].tell(points, since)

    def known(self) -> tuple[Curve, ...]:
        """All curves, in the order in which their metrics were first reported."""
        return tuple(
            Curve(instance, metric, curve.points())
            for (instance, metric), curve in self._curves.items()
        )


class _Curve:
    """The course of one program, which always tells all of it, after those of earlier programs."""

    def __init__(self, earlier: tuple[Point, ...] = ()) -> None:
        self._earlier = earlier
        self._present: tuple[Point, ...] = ()

    def tell(self, points: tuple[Point, ...], since: float) -> None:
        present = tuple(
            (max(round(time - since, 1), 0.0), step, value) for time, step, value in points
        )
        if present[:1] != self._present[:1]:
            # Another coordinator may have known the beginning of this course already.
            known = self.points()
            self._earlier = tuple(p for p in known if not present or p[0] < present[0][0])
        self._present = present

    def points(self) -> tuple[Point, ...]:
        return thinned((*self._earlier, *self._present))
