"""Lets programs save before a planned stop: `flex`, `stop`, instances that join, a container whose
end is announced.

    asked to hold ---> all have told their step: one ahead of all is named ---> all have saved: over
          |                                                                           ^
          +-------------- an instance has ended, or the time is over ----------------+

Only programs that have said that they take part are waited for, and `save_grace` seconds at most.
What is planned begins once that is over. What is planned later asks again, where a program takes
part by then that was not asked, or did not at that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfapp.contract import saving
from tfapp.contract.names import RUNNING
from tfapp.contract.saving import SaveRequest
from tfapp.contract.status import SAVES
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import Instance, Saving, Stage, State, live, started
from tfapp.coordinator.policy.verdicts import names
from tfapp.frozen import replace


def comes_first(state: State) -> bool:
    """Whether programs have to save before they are stopped as planned: they are asked now, or one
    takes part by now that the last request did not reach."""
    return goes_on(state) or _wanted(state)


def begin(state: State, time: float) -> Step:
    """Asks all programs to save, unless that goes on."""
    if goes_on(state):
        return state, ()
    expected = {i.id: i.attempt for i in _at_work(state)}
    until = time + state.job.limits.save_grace
    asked = Saving(f"{state.generation}-{time:.3f}", state.generation, until, expected)
    return replace(state, saving=asked), (_request(asked, saving.HOLD, time),)


def noticed(state: State, event: events.Beaten) -> Step:
    """A runner says that its container was asked to end, and that its program waits to save."""
    beat, instance = event.beat, state.instances.get(event.instance)
    if instance is None or beat.state != "leaving" or beat.generation != state.generation:
        return state, ()
    if beat.container not in ("", instance.container) or not comes_first(state):
        return state, ()
    return begin(state, event.time)


def told(state: State, event: events.SaveTold) -> Step:
    """What an instance has done. What is too late, or of another container, counts for nothing."""
    told, asked = event.save, _current(state)
    instance = state.instances.get(told.instance)
    if asked is None or asked.over or told.id != asked.id or instance is None:
        return state, ()
    if told.instance not in asked.expected or told.container != instance.container:
        return state, ()
    if asked.named and told.takes_part and not told.saved:
        return state, ()
    asked = replace(asked, told={**asked.told, told.instance: told})
    if not told.takes_part:
        state = state.with_instance(replace(instance, saves=False))
    return replace(state, saving=asked), ()


def settle(state: State, time: float) -> Step:
    """Names the step when all have told theirs, and ends the wait when all have saved, or have
    taken too long."""
    asked = _current(state)
    if asked is None:
        return replace(state, saving=None), ()
    if asked.over:
        if time < asked.until + saving.PATIENCE:
            return state, ()
        return replace(state, saving=None), (_request(asked, saving.GO_ON, time),)
    left = [name for name in asked.expected if name not in asked.told and _may_tell(state, name)]
    if time >= asked.until:
        return _over(state, asked, left, time)
    if left:
        return state, ()
    parts = {name: told for name, told in asked.told.items() if told.takes_part}
    if not parts:
        asked = replace(asked, expected={})
    if asked.named or not parts:
        return _over(state, asked, (), time)
    steps = [told.step for told in parts.values() if told.step is not None]
    asked = replace(
        asked,
        named=True,
        step=max(steps) + 1 if steps else None,
        expected={name: asked.expected[name] for name in parts},
        told={},
    )
    return replace(state, saving=asked), (_request(asked, saving.SAVE, time),)


def due(state: State) -> float:
    """The time at which nobody is waited for any more; infinity if nobody is."""
    asked = state.saving
    if asked is None:
        return math.inf
    return asked.until + (saving.PATIENCE if asked.over else 0.0)


def goes_on(state: State) -> bool:
    """Whether programs are waited for now."""
    asked = _current(state)
    return asked is not None and not asked.over


def _current(state: State) -> Saving | None:
    """That of the programs that run, and not of those of an earlier generation."""
    asked = state.saving
    here = asked is not None and asked.generation == state.generation
    return asked if here and state.phase == RUNNING and not state.decided else None


def _wanted(state: State) -> bool:
    if state.phase != RUNNING or state.decided or not state.job.limits.save_grace:
        return False
    asked = _current(state)
    reached = {} if asked is None else asked.expected
    return any(i.saves and reached.get(i.id) != i.attempt for i in _at_work(state))


def _at_work(state: State) -> list[Instance]:
    return [
        i
        for i in state.instances.values()
        if started(state, i) and live(i) and i.stage is Stage.RUNNING and not i.joins
    ]


def _may_tell(state: State, name: str) -> bool:
    """Whether the program that was asked still runs."""
    instance, asked = state.instances.get(name), state.saving
    if instance is None or instance.ended or asked is None:
        return False
    return instance.attempt == asked.expected[name] and live(instance)


def _over(state: State, asked: Saving, left: Sequence[str], time: float) -> Step:
    saved = [name for name in asked.expected if name in asked.told and asked.told[name].saved]
    if saved:
        at = "" if asked.step is None else f" at step {asked.step}"
        verb = "has" if len(saved) == 1 else "have"
        state = state.noted(time, f"{names(saved)} {verb} saved{at} before the stop", SAVES)
    if left:
        verb = "has" if len(left) == 1 else "have"
        limit = f"{state.job.limits.save_grace:g} s (site.global.save.grace)"
        state = state.noted(time, f"{names(left)} {verb} not saved within {limit}", SAVES)
    asked = replace(asked, over=True)
    return replace(state, saving=asked), (_request(asked, saving.OVER, time),)


def _request(asked: Saving, action: str, time: float) -> actions.PublishSave:
    left = max(asked.until - time, 0.0) + saving.PATIENCE
    return actions.PublishSave(
        SaveRequest(asked.id, asked.generation, action, round(left, 3), asked.step)
    )
