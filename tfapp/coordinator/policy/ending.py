"""Ends an application: fixes the verdict, then stops the programs that still run, in order."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfapp.contract.exit import Exit
from tfapp.contract.messages import Order
from tfapp.contract.names import FAILED, STOPPING, SUCCEEDED
from tfapp.contract.status import ENDS, ApplicationStatus, Verdict
from tfapp.coordinator.policy import actions, verdicts
from tfapp.coordinator.policy.events import Started
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import (
    FINISHED,
    Instance,
    Intent,
    Stage,
    State,
    live,
    resumed,
    started,
    success_instances,
)
from tfapp.frozen import replace

# Seconds that a runner gets beyond its grace to end the process tree and to report.
STOP_MARGIN = 10.0
# The longest grace after a failure, in seconds: programs have nothing to save then.
FAILURE_GRACE = 5.0
# Workers end shortly after their chief: seconds that they get before they are told to stop. With
# parameter servers, workers never end by themselves and are told at once.
WORKER_COURTESY = 2.0

_STOPPED = Exit(None, None, "stopped", "ended with the application")


def check_success(state: State, time: float) -> State:
    """Fixes the verdict SUCCEEDED when all instances that must succeed have done so. Ignored
    instances do not count, but if all of them are ignored, the verdict is FAILED."""
    needed = success_instances(state)
    if state.failure is not None or not needed:
        return state
    if not all(i.succeeded or i.intent is Intent.IGNORE for i in needed):
        return state
    if any(i.succeeded for i in needed):
        return decide(state, time, verdicts.succeeded(state, time))
    return decide(state, time, verdicts.failed(state, needed[0], state.generation))


def decide(state: State, time: float, verdict: Verdict) -> State:
    """Fixes the verdict. From now on instances are stopped, and failures do not count."""
    state = replace(state, phase=STOPPING, verdict=verdict, finish_by=time)
    state = state.noted(time, verdict.summary, ENDS)
    if not state.formed:
        return state  # no program has been started
    return _plan(state, {i.id: time + _patience(state, i) for i in stoppable(state)})


def ended_before(
    state: State, event: Started, earlier: ApplicationStatus, verdict: Verdict
) -> State:
    """The state of a run that finds the `verdict` of an earlier one: nothing starts again, and the
    instances are as they ended."""
    begun = replace(state, started=event.time, before=event.before, ticked=event.time)
    found = resumed(begun, earlier)
    exits = {i.instance: i.exit or _STOPPED for i in earlier.instances}
    instances = (replace(i, stage=Stage.GONE, exit=exits[i.id]) for i in found.instances.values())
    return replace(
        found.with_instances(instances),
        generation=earlier.generation or 1,
        timeline=found.timeline[:-1],  # without the beginning of a generation
        phase=FINISHED,
        verdict=verdict,
    )


def hurry(state: State, time: float) -> State:
    """Makes the stop due now for instances that were given time to finish."""
    return _plan(state, {i.id: min(_stop_at(i), time) for i in stoppable(state)})


def unhurried(state: State) -> bool:
    """Whether an instance was given time that is not over yet."""
    return any(_stop_at(i) > state.ticked for i in stoppable(state))


def stoppable(state: State) -> tuple[Instance, ...]:
    """The instances whose runner is alive and whose program has not ended."""
    return tuple(i for i in state.instances.values() if live(i) and not i.ended)


def unstopped(state: State) -> tuple[Instance, ...]:
    """The stoppable instances that have not been told to stop yet."""
    return tuple(i for i in stoppable(state) if i.stage is not Stage.STOPPING)


def _stop_at(instance: Instance) -> float:
    return instance.due if instance.intent is Intent.STOP else math.inf


def _plan(state: State, stop_at: Mapping[str, float]) -> State:
    state = state.with_instances(
        replace(state.instances[i], intent=Intent.STOP, due=at) for i, at in stop_at.items()
    )
    running = [_stop_at(i) for i in state.instances.values() if started(state, i)]
    return replace(state, finish_by=max(running, default=-math.inf) + grace(state) + STOP_MARGIN)


def _patience(state: State, instance: Instance) -> float:
    """Seconds that an instance may go on after the decision."""
    assert state.verdict is not None
    if state.verdict.state != SUCCEEDED:
        return 0.0
    if instance.role == "evaluator":
        return state.job.limits.evaluator
    servers = any(i.role == "ps" for i in state.instances.values())
    return WORKER_COURTESY if instance.role in ("chief", "worker") and not servers else 0.0


def grace(state: State) -> float:
    """Seconds between asking a program to end and killing it."""
    assert state.verdict is not None
    limit = state.job.limits.stop_grace
    return min(limit, FAILURE_GRACE) if state.verdict.state == FAILED else limit


def stop(state: State, time: float) -> Step:
    """The step of STOPPING at `time`: sends the orders that are due; ends the application when no
    program is left."""
    state, dismissed = dismiss(state)
    running = any(started(state, i) for i in state.instances.values())
    due = [i for i in unstopped(state) if _stop_at(i) <= time]
    if not running or (time >= state.finish_by and not due):
        state, done = _finish(state)
        return state, (*dismissed, *done)
    if not due:
        return state, dismissed
    order = Order(state.generation, "stop", grace(state))
    # A coordinator that was paused sends the orders late, so the grace counts from now on.
    told = (replace(i, stage=Stage.STOPPING, due=time) for i in due)
    state = state.with_instances(told)
    finish_by = max(state.finish_by, time + order.grace + STOP_MARGIN)
    state = replace(state, finish_by=finish_by)
    return state, (*dismissed, actions.SendOrders({instance.id: order for instance in due}))


def dismiss(state: State) -> Step:
    """Lets runners that have reported exit, once no program will be started in their containers
    any more."""
    policy = state.job.failure
    if not state.decided and (policy.max_restarts > 0 or policy.max_losses > 0):
        return state, ()
    due = [
        i for i in state.instances.values() if i.report is not None and i.stage is not Stage.GONE
    ]
    if not due:
        return state, ()
    orders = {i.id: Order(state.generation, "exit") for i in due}
    state = state.with_instances(replace(i, stage=Stage.GONE) for i in due)
    return state, (actions.SendOrders(orders),)


def _finish(state: State) -> Step:
    """Ends the application. Programs that are still running end with their containers."""
    verdict = state.verdict
    assert verdict is not None
    late = Exit(None, None, "stopped", f"not seen to end {STOP_MARGIN:g} s after its grace")
    left = (i for i in state.instances.values() if i.exit is None)
    state = state.with_instances(
        replace(i, exit=late if i.stage is Stage.STOPPING else _STOPPED, stage=Stage.GONE)
        for i in left
    )
    state = replace(state, phase=FINISHED)
    return state, (actions.Shutdown(verdict),)
