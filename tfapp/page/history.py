"""The history of an application as the parts of a picture: a lane for each instance, a band for
each generation, a mark for each failure. Times are seconds since the application's start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from tfapp.contract.names import FINAL_STATES, LOST, REQUESTED, STOPPED, SUSPENDED, WAITING
from tfapp.contract.status import (
    BEGINS,
    ENDS,
    FAILURE,
    IGNORED,
    REPLACED,
    RESTARTED,
    STARTS,
    SUSPENDS,
    ApplicationStatus,
    InstanceStatus,
    Moment,
)
from tfapp.frozen import frozen

FORMS, RUNS = "forms", "runs"  # kinds of a part: the cluster forms, the program runs


@frozen
class Generation:
    """The band of one generation. `starts`: when its programs started, None if they have not.
    `ends`: None while it is the present one."""

    number: int
    begins: float
    starts: float | None
    ends: float | None


@frozen
class Part:
    """A part of a lane. `until`: None if it lasts to the present."""

    since: float
    until: float | None
    kind: str


@frozen
class Lane:
    """The lane of one instance. `starts`: how often its program was started, as far as the timeline
    goes back."""

    instance: str
    parts: tuple[Part, ...]
    starts: int


@frozen
class Mark:
    """The mark of a failure. `instance`: "" for a failure of the whole application."""

    at: float
    instance: str
    text: str


@frozen
class History:
    """The whole picture. `since`: its left edge; greater than 0 if the timeline has lost its
    earliest moments."""

    since: float
    until: float | None  # None while the application runs
    generations: tuple[Generation, ...]
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]


def history(status: ApplicationStatus, live: bool) -> History:
    """The history in the timeline of `status`. `live`: whether the application still runs."""
    moments = [dataclasses.replace(m, time=m.time - status.started) for m in status.timeline]
    until = None if live else max(status.updated - status.started, 0.0)
    generations = tuple(_generations(status, moments, until))
    lanes = tuple(_lanes(status, generations, moments))
    return History(
        generations[0].begins if generations else 0.0,
        until,
        generations,
        lanes,
        tuple(_marks(status, moments, lanes)),
    )


def _generations(
    status: ApplicationStatus, moments: Sequence[Moment], until: float | None
) -> Iterator[Generation]:
    began: dict[int, float] = {}
    started: dict[int, float] = {}
    suspended: dict[int, float] = {}
    for moment in moments:
        if moment.generation is None:
            continue
        if moment.kind == STARTS:
            started[moment.generation] = moment.time
        if moment.kind == SUSPENDS:
            suspended[moment.generation] = moment.time
        if moment.kind in (BEGINS, STARTS):
            # There is no moment for the beginning of the first one; old moments are dropped.
            first = 0.0 if moment.generation == 1 else moment.time
            began.setdefault(moment.generation, first)
    if not began and status.generation is not None:
        began[status.generation] = 0.0
    numbers = sorted(began)
    for number, following in zip(numbers, [*numbers[1:], None]):
        ends = until if following is None else began[following]
        ends = suspended.get(number, ends)
        yield Generation(number, began[number], started.get(number), ends)


def _lanes(
    status: ApplicationStatus,
    generations: Sequence[Generation],
    moments: Sequence[Moment],
) -> Iterator[Lane]:
    turns: dict[tuple[str, int | None], list[Moment]] = {}
    for moment in moments:
        if moment.kind in (FAILURE, IGNORED, RESTARTED, REPLACED):
            turns.setdefault((moment.instance, moment.generation), []).append(moment)
    for instance in status.instances:
        joined = status.joined.get(instance.instance, 1)
        parts: list[Part] = []
        for generation in generations:
            if generation.number >= joined:
                own = turns.get((instance.instance, generation.number), [])
                last = generation is generations[-1] and status.state != SUSPENDED
                parts += _parts(generation, own, instance if last else None)
        starts = sum(part.kind == RUNS for part in parts)
        yield Lane(instance.instance, tuple(parts), starts)


def _parts(
    generation: Generation, turns: Iterable[Moment], now: InstanceStatus | None
) -> Iterator[Part]:
    """The parts of one instance in one generation. `now`: its status if that is the last
    generation."""
    starts = generation.starts
    if starts is None:
        yield Part(generation.begins, generation.ends, FORMS)
        return
    if starts > generation.begins:
        yield Part(generation.begins, starts, FORMS)
    since: float | None = starts
    for turn in turns:
        at = min(turn.time, generation.ends if generation.ends is not None else turn.time)
        if turn.kind in (FAILURE, IGNORED):
            if since is not None and at > since:
                yield Part(since, at, RUNS)
            since = None
        else:
            since = at if since is None else since
    if since is None:
        return
    until = generation.ends
    if now is not None and now.state in (REQUESTED, WAITING):
        yield Part(since, until, FORMS)
        return
    if now is not None and now.seconds is not None and now.state in (*FINAL_STATES, LOST, STOPPED):
        until = since + now.seconds if until is None else min(since + now.seconds, until)
    yield Part(since, until, RUNS)


def _marks(
    status: ApplicationStatus, moments: Iterable[Moment], lanes: Sequence[Lane]
) -> Iterator[Mark]:
    """A verdict's failure stands where its instance ended: the verdict waits for the others."""
    ended = {lane.instance: lane.parts[-1].until for lane in lanes if lane.parts}
    cause = status.verdict.cause if status.verdict else None
    for moment in moments:
        if moment.kind in (FAILURE, IGNORED):
            yield Mark(moment.time, moment.instance, moment.text)
        elif moment.kind == ENDS and cause is not None:
            at = ended.get(cause.instance)
            at = moment.time if at is None else min(at, moment.time)
            yield Mark(at, cause.instance, moment.text)
