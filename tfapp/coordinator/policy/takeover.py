"""What a coordinator leaves to the next one: its whole state, and the actions that were decided
with it, as one value, which is written before anything is done about them.

A successor does these actions again, each of which is harmless when it is done twice, and goes on
with what runners and clients have told meanwhile. Times are those of the machine's clock since its
start, which goes on when a process ends. On another machine the successor goes on with that clock.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any, get_args

from tfapp.contract.encoding import Coded, decode, plain
from tfapp.contract.messages import Beat
from tfapp.contract.status import TAKEN_OVER
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import Instance, Pace, State
from tfapp.frozen import frozen, replace

MAX_SIZE = 3 * 1024 * 1024  # bytes; a message to the master has 4 MiB at most

# What runners say again by each heartbeat, or what is no more than told.
_TOLD_AGAIN: Mapping[str, Any] = {
    "preparing": "",
    "metrics": {},
    "step": None,
    "steps_per_second": None,
    "epoch": None,
    "total": None,
    "usage": None,
    "points": {},
}


@frozen
class Handover(Coded):
    """`attempt`: the number of the master. `since`: the application's start, seconds since 1970.
    `containers`, `pages`: those that the coordinator knew. `seen`: the reports that it had read,
    key -> checksum of its value."""

    state: State
    attempt: int
    since: float
    containers: tuple[str, ...]
    pages: Mapping[str, str]
    seen: Mapping[str, int]
    actions: tuple[Action, ...] = ()
    boot: str = ""  # of the machine, and at which second since 1970 its clock was 0
    zero: float = 0.0


_ACTIONS: Mapping[str, Any] = {cls.__name__: cls for cls in get_args(Action)}


def write(handover: Handover) -> bytes:
    """As compressed JSON, in which mappings keep their order. If it were too large, it is without
    the last lines of programs and the courses of metrics, which decide nothing."""
    written = _write(handover)
    if len(written) <= MAX_SIZE:
        return written
    state = handover.state
    thin = state.with_instances(_thin(i) for i in state.instances.values())
    return _write(replace(handover, state=thin))


def _write(handover: Handover) -> bytes:
    done = [[type(action).__name__, action] for action in handover.actions]
    data = {**plain(handover), "actions": done}
    return zlib.compress(json.dumps(data, default=plain, separators=(",", ":")).encode(), 1)


def _thin(instance: Instance) -> Instance:
    report = instance.report and replace(instance.report, last_lines="", points={})
    return replace(instance, report=report, points={})


def read(written: bytes) -> Handover:
    """What `write` has written. ValueError if it is something else."""
    try:
        data = json.loads(zlib.decompress(written))
        done = data.pop("actions")
        found = tuple(decode(_ACTIONS[kind], action) for kind, action in done)
    except (zlib.error, KeyError, TypeError) as error:
        raise ValueError(f"no state of a coordinator: {error!r}") from error
    return replace(Handover.from_dict(data), actions=found)


def same(before: State, after: State) -> bool:
    """Whether a successor that knows `before` goes on as well as one that knows `after`: they
    differ in what it is told again."""
    return before is after or _essence(before) == _essence(after)


def _essence(state: State) -> State:
    instances = {
        name: replace(
            instance,
            heard=None if instance.heard is None else 0.0,
            pace=_known(instance.pace),
            **_TOLD_AGAIN,
        )
        for name, instance in state.instances.items()
    }
    return replace(state, instances=instances, ticked=0.0, feed=None)


def _known(pace: Pace | None) -> Pace | None:
    """Its patience, roughly: of a program that stalls by then, a successor could learn none."""
    if pace is None or not pace.gaps:
        return None
    return Pace(0, 0.0, 0.0, longest=math.frexp(pace.patience)[1])


def taken_over(state: State, event: events.TakenOver) -> Step:
    """Goes on after the loss of the coordinator. Nobody could be heard meanwhile: the silence of
    runners counts from now on."""
    time = event.time
    state = replace(state, ticked=time, resumed=time)
    state = state.with_instances(
        _heard(state, instance, event) for instance in state.instances.values()
    )
    return state.noted(time, "the coordinator was lost, another one goes on", TAKEN_OVER), ()


def _heard(state: State, instance: Instance, event: events.TakenOver) -> Instance:
    if instance.heard is None:
        return instance
    beat = event.beats.get(instance.id)
    if beat is not None and not instance.ended and _is_of(state, instance, beat):
        instance = instance.measured(beat)
    pace = instance.pace
    if pace is not None and instance.id not in state.stalled:
        # Of its steps meanwhile the time is not known.
        count = instance.epoch if instance.step is None else instance.step
        count = pace.count if count is None else count
        pace = replace(pace, count=count, at=event.time, seen=event.time)
    return replace(instance, heard=event.time, pace=pace)


def _is_of(state: State, instance: Instance, beat: Beat) -> bool:
    return beat.generation == state.generation and beat.container in ("", instance.container)
