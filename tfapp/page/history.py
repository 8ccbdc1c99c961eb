"""The history of an application as a picture's parts: a lane for each instance, a band for each
generation, a mark for each failure. Times: seconds since the application's start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from tfapp.contract.names import FINAL_STATES, LOST, REQUESTED, STOPPED, WAITING
from tfapp.contract.status import (
    BEGINS,
    ENDS,
    FAILURE,
    IGNORED,
    REPLACED,
    RESTARTED,
    STARTS,
    ApplicationStatus,
    InstanceStatus,
    Moment,
)
from tfapp.frozen import frozen

FORMS, RUNS = "forms", "runs"  # what an instance does in a part of its lane


@frozen
class Generation:
    """`starts`: when its programs started, None when they have not. `ends`: None as long as it is
    the present one."""

    number: int
    begins: float
    starts: float | None
    ends: float | None


@frozen
class Part:
    """A part of a lane. `until`: None for now."""

    since: float
    until: float | None
    kind: str


@frozen
class Lane:
    """One instance. `starts`: how often its program has been started, as far as is remembered."""

    instance: str
    parts: tuple[Part, ...]
    starts: int


@frozen
class Mark:
    """A failure. `instance`: "" for the application's own."""

    at: float
    instance: str
    text: str


@frozen
class History:
    """`since`: where the picture begins; not 0 where earlier moments are forgotten."""

    since: float
    until: float | None  # None: it goes on
    generations: tuple[Generation, ...]
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]


def history(status: ApplicationStatus, live: bool) -> History:
    """The history that `status` tells."""
    moments = [dataclasses.replace(m, time=m.time - status.started) for m in status.timeline]
    until = None if live else max(status.updated - status.started, 0.0)
    generations = tuple(_generations(status, moments, until))
    return History(
        generations[0].begins if generations else 0.0,
        until,
        generations,
        tuple(_lanes(status, generations, moments)),
        tuple(_marks(status, moments)),
    )


def _generations(
    status: ApplicationStatus, moments: Sequence[Moment], until: float | None
) -> Iterator[Generation]:
    began: dict[int, float] = {}
    started: dict[int, float] = {}
    for moment in moments:
        if moment.generation is None:
            continue
        if moment.kind == STARTS:
            started[moment.generation] = moment.time
        if moment.kind in (BEGINS, STARTS):
            # Nothing tells of the first one's begin, and old moments are forgotten.
            first = 0.0 if moment.generation == 1 else moment.time
            began.setdefault(moment.generation, first)
    if not began and status.generation is not None:
        began[status.generation] = 0.0
    numbers = sorted(began)
    for number, following in zip(numbers, [*numbers[1:], None]):
        ends = until if following is None else began[following]
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
                last = generation is generations[-1]
                parts += _parts(generation, own, instance if last else None)
        starts = sum(part.kind == RUNS for part in parts)
        yield Lane(instance.instance, tuple(parts), starts)


def _parts(
    generation: Generation, turns: Iterable[Moment], now: InstanceStatus | None
) -> Iterator[Part]:
    """One instance in one generation. `now`: its status, in the present one."""
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


def _marks(status: ApplicationStatus, moments: Iterable[Moment]) -> Iterator[Mark]:
    for moment in moments:
        if moment.kind in (FAILURE, IGNORED):
            yield Mark(moment.time, moment.instance, moment.text)
        cause = status.verdict.cause if status.verdict else None
        if moment.kind == ENDS and cause is not None:
            yield Mark(moment.time, cause.instance, moment.text)
