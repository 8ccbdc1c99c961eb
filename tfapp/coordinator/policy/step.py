"""The entry point of the policy: from a state and an event to the next state and actions. Deadlines
pass at ticks only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract.names import FORMING
from tfapp.contract.status import FAILURE, SESSION
from tfapp.coordinator.policy import (
    actions,
    elastic,
    ending,
    ends,
    events,
    failure_policy,
    flexing,
    forming,
    judging,
    saving,
    stacks,
    takeover,
    verdicts,
)
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import (
    FINISHED,
    Instance,
    Intent,
    Recovery,
    State,
    fenced,
    held_until,
    holding,
    keeps,
)
from tfapp.frozen import replace

# The loop ticks every second. If more than this many seconds lie between two ticks, the coordinator
# itself was paused, and the silence of runners is counted anew.
PAUSED = 5.0
# Seconds after a pause in which no deadline passes: messages may still be on their way.
CATCH_UP = 1.0


def step(state: State, event: events.Event) -> Step:
    """The state after `event`, and the actions to carry out, in their order."""
    if state.phase == FINISHED:
        return state, ()
    state, done = _HANDLERS[type(event)](state, event)
    return state, _once(done)


def _once(done: tuple[actions.Action, ...]) -> tuple[actions.Action, ...]:
    """Without requests that a later one for the same instance replaces: a tick may deal with two
    failures, and nobody knows of the first one's containers yet."""
    last = {one.instance: one for one in done if isinstance(one, actions.RequestContainer)}
    return tuple(
        one
        for one in done
        if not isinstance(one, actions.RequestContainer) or last[one.instance] is one
    )


def _begin(state: State, event: events.Started) -> Step:
    earlier = event.earlier if event.lost else None
    if earlier is not None and earlier.decided is not None:
        return ending.ended_before(state, event, earlier, earlier.decided), ()
    state, announced = forming.begin(state, event)
    if earlier is not None:
        objection = failure_policy.objection_to_loss(state)
        if objection is not None:
            verdict = verdicts.master_lost(state, objection, event.why)
            return ending.decide(state, event.time, verdict), ()
        state = failure_policy.charge_master(state, event.time, event.why)
    if not state.instances:
        state = ending.decide(state, event.time, verdicts.nothing_to_run(state))
    return state, announced


def _stop_requested(state: State, event: events.StopRequested) -> Step:
    """Handles a request to end the application. If the verdict is fixed, instances that were given
    time to finish are stopped now. A failure that is about to become the verdict still does."""
    if state.decided:
        return ending.hurry(state, event.time), ()
    state, survived = judging.hasten(state, event.time)
    if survived and saving.comes_first(state):
        message = event.message if state.to_stop is None else state.to_stop
        return saving.begin(replace(state, to_stop=message), event.time)
    if survived:
        state = ending.decide(state, event.time, verdicts.killed(state, event.message))
    return state, ()


def _master_leaves(state: State, event: events.MasterLeaves) -> Step:
    """Decides nothing any more: much may end now that is no loss. Lets programs save where that is
    wanted; the next tick at which nobody is waited for tells the master."""
    state = replace(state, leaves=True, suspends=event.saves)
    begins = event.saves and saving.comes_first(state)
    return saving.begin(state, event.time) if begins else (state, ())


def _fed(state: State, event: events.Fed) -> Step:
    """Notes the counters of the feed; they affect no decision."""
    return replace(state, feed=event.feed), ()


def _master_back(state: State, event: events.MasterBack) -> Step:
    """Notes it; nothing was lost. This master does not leave."""
    state = replace(state, leaves=False, suspends=False)
    text = "the application's master was lost and is back; the programs went on"
    return state.noted(event.time, f"{text}{event.why and f': {event.why}'}", FAILURE), ()


def _session_requested(state: State, event: events.SessionRequested) -> Step:
    """Notes the request before its runner knows of it; it affects no decision. A runner refuses
    where sessions are off."""
    request = event.request
    if request.instance not in state.instances:
        return state, ()
    if state.job.owner:
        text = f"a session in {request.instance} was asked for (tfapp exec)"
        state = state.noted(event.time, text, SESSION, request.instance)
    return state, (actions.PublishSession(request),)


def _answered(state: State, event: events.Answered) -> Step:
    state, left = flexing.left(state, event.answer.container, event.answer.generation)
    state, done = forming.answered(state, event)
    return state, (*left, *done)


def _taken_over(state: State, event: events.TakenOver) -> Step:
    """What a runner waits for is in its newest heartbeat, which is not told again for a while."""
    state, done = takeover.taken_over(state, event)
    for instance, beat in event.beats.items():
        state, asked = _waited_for(state, events.Beaten(event.time, instance, beat))
        done = (*done, *asked)
    return state, done


def _waited_for(state: State, event: events.Beaten) -> Step:
    state, asked = stacks.hanging(state, event)
    state, told = saving.noticed(state, event)
    return state, (*asked, *told)


def _beaten(state: State, event: events.Beaten) -> Step:
    state, done = forming.beaten(state, event)
    state, asked = _waited_for(stacks.paced(state, event), event)
    return state, (*done, *asked)


def _exited(state: State, event: events.Exited) -> Step:
    state, left = flexing.left(state, event.report.container, event.report.generation)
    state, done = ends.exited(state, event)
    return state, (*left, *done)


def _container_ended(state: State, event: events.ContainerEnded) -> Step:
    state, left = flexing.container_ended(state, event)
    state, done = ends.container_ended(state, event)
    return state, (*left, *done)


# ---- deadlines --------------------------------------------------------------------------------
def tick(state: State, event: events.Tick) -> Step:
    """Acts on everything that is due at `event.time`. All earlier events have been handled."""
    time = event.time
    state = _after_pause(state, time)
    if time < state.resumed + CATCH_UP:
        return state, ()
    state, done = forming.hold(state, time)
    if not (state.decided or _recovers(state)):
        state = elastic.go_without(state, time)
    state, told = forming.remind(state, time)
    state, settled = stacks.settle(state, time)
    state, asked = stacks.stall(state, time)
    state, saved = saving.settle(state, time)
    done += (*told, *settled, *asked, *saved)
    if state.leaves:
        if not state.suspends or saving.goes_on(state):
            return state, done
        return replace(state, suspends=False), (*done, actions.LetSuspend())
    for instance in tuple(i for i in state.instances.values() if _silence(state, i) <= time):
        state, more = ends.silent(state, instance, time)
        done += more
    if any(isinstance(one, actions.ListContainers) for one in done) and not state.decided:
        return state, done  # the next tick follows at once, after the master's list of containers
    if not state.decided:
        state, left = flexing.leave(state, time)
        state, planned = _stop_as_planned(state, time)
        done += (*left, *planned)
    if not state.decided:
        state, more = _go_on(state, time)
        done += more
    if state.decided:
        if _lifetime(state) <= time:
            state = ending.hurry(state, time)
        state, more = ending.stop(state, time)
        done += more
    return state, done


def _stop_as_planned(state: State, time: float) -> Step:
    """Does what has waited for programs to save: ends the application, or removes instances."""
    if saving.goes_on(state):
        return state, ()
    if state.to_stop is not None:
        request = events.StopRequested(time, state.to_stop)
        return _stop_requested(replace(state, to_stop=None), request)
    return flexing.shrink(state, time)


def _go_on(state: State, time: float) -> Step:
    """Acts on failures and on pending work, then on the deadlines that end the application."""
    state, done = judging.look(state, time)
    if state.failure is None and not state.decided:
        state, formed = forming.complete(state, time)
        state, released = forming.release(state)
        state = ending.check_success(state, time)
        done += (*formed, *released)
    if state.decided:
        return state, done
    if not _recovers(state):
        if _gang(state) <= time:
            state = replace(judging.close(state), listing=True)
            return state, (*done, actions.ListContainers())
        if state.phase == FORMING and _held_until(state) <= time:
            state = judging.close(state)
            return ending.decide(state, time, verdicts.held_too_long(state)), done
        if _lifetime(state) <= time:
            state = judging.close(state)
            return ending.decide(state, time, verdicts.lifetime_over(state)), done
        if _back_at(state) <= time:
            state, given = forming.give_back(state, time)
            done += given
        if state.ask_at <= time:
            state, asked = forming.ask_again(state, time)
            done += asked
    state, restarted = judging.restart_programs(state, time)
    joined: tuple[actions.Action, ...] = ()
    if state.failure is None:
        state, joined = flexing.join(state, time)
        state, later = elastic.go_on(state, time)
        joined += later
    return state, (*done, *restarted, *joined)


def next_deadline(state: State) -> float:
    """The time at which the next tick is needed if no event comes before; infinity for never."""
    if state.phase == FINISHED:
        return math.inf
    if state.leaves:
        return max(saving.due(state), state.resumed + CATCH_UP)
    silence = (_silence(state, instance) for instance in state.instances.values())
    leaving = () if state.decided else (leaving.until for leaving in state.leaving.values())
    asked = (stacks.due(state), saving.due(state))
    first = min((*_deadlines(state), *asked, *silence, *leaving))
    return max(first, state.resumed + CATCH_UP)


def _deadlines(state: State) -> tuple[float, ...]:
    if state.decided:
        waiting = (i.due for i in ending.unstopped(state) if i.intent is Intent.STOP)
        return (_lifetime(state), state.finish_by, *waiting)
    failure = judging.due(state, state.ticked)
    restarts = (i.due for i in state.instances.values() if i.intent is Intent.RESTART)
    if _recovers(state):
        return (failure, *restarts)
    limits = (_gang(state), *_held(state), elastic.forms_at(state), _lifetime(state))
    if state.failure is not None:
        return (failure, *limits, *restarts)
    joins = () if saving.goes_on(state) else (flexing.due(state), elastic.due(state))
    return (*limits, _backed_off(state), *joins, *restarts)


def _recovers(state: State) -> bool:
    """Whether a failure is open that will be judged soon: other deadlines wait for it."""
    return state.failure is not None and (
        state.phase != FORMING or state.failure.recovery is Recovery.NONE
    )


def _after_pause(state: State, time: float) -> State:
    paused = time - state.ticked > PAUSED
    state = replace(state, ticked=time)
    if not paused:
        return state
    state = replace(state, resumed=time)
    heard = (i for i in state.instances.values() if i.heard is not None)
    return state.with_instances(replace(i, heard=time) for i in heard)


def _silence(state: State, instance: Instance) -> float:
    """The time at which the silence of `instance` counts as a loss: later than the time at which a
    runner that cannot reach the master kills its own program."""
    return math.inf if instance.ended else fenced(state, instance)


def _gang(state: State) -> float:
    if state.phase != FORMING or state.listing or state.hold is not None:
        return math.inf
    if state.enough_since < math.inf:
        return math.inf  # it forms without those that are missing
    return max(state.counted, state.not_before) + state.job.limits.gang


def _held(state: State) -> tuple[float, ...]:
    """The end of a wait for a scheduler, and the next announcement during a long wait; when
    containers that wait for others are given back, and when they are requested again."""
    reminder = forming.reminder(state)
    if state.phase != FORMING or state.hold is None:
        return (reminder, state.ask_at)
    return (_held_until(state), reminder, _back_at(state), state.ask_at)


def _held_until(state: State) -> float:
    """The end of the time for which a scheduler may hold back what the generation needs."""
    return held_until(state) if state.enough_since == math.inf else math.inf


def _back_at(state: State) -> float:
    if state.phase != FORMING or state.hold is None or not holding(state) or keeps(state):
        return math.inf
    if state.enough_since < math.inf:
        return math.inf  # it forms soon with what is there
    return state.hold.back_at


def _lifetime(state: State) -> float:
    """The end of the application's lifetime. After the verdict it matters only while instances are
    given time to finish; infinity otherwise."""
    if not state.job.limits.lifetime or (state.decided and not ending.unhurried(state)):
        return math.inf
    return state.started + state.job.limits.lifetime


def _backed_off(state: State) -> float:
    """The end of the back-off, after which a complete cluster may be published."""
    waiting = state.phase == FORMING and state.ticked < state.not_before
    return state.not_before if waiting else math.inf


_HANDLERS: Mapping[type, Callable[[State, Any], Step]] = {
    events.Started: _begin,
    events.TakenOver: _taken_over,
    events.Requested: forming.requested,
    events.Refused: ends.refused,
    events.Waits: forming.waits,
    events.Answered: _answered,
    events.Beaten: _beaten,
    events.StacksTold: stacks.told,
    events.SaveTold: saving.told,
    events.Exited: _exited,
    events.ContainerEnded: _container_ended,
    events.StopRequested: _stop_requested,
    events.MasterLeaves: _master_leaves,
    events.FlexRequested: flexing.requested,
    events.SessionRequested: _session_requested,
    events.Fed: _fed,
    events.MasterBack: _master_back,
    events.Listed: ends.listed,
    events.Tick: tick,
}
