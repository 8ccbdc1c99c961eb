"""How an application ends: what its instances' ends mean, the decision, the orderly stop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tfapp.contract.control import Order
from tfapp.contract.exit import Exit
from tfapp.contract.failure import IGNORE, LOSS_REASONS
from tfapp.contract.reports import ExitReport
from tfapp.contract.states import FAILED, FORMING, KILLED, LOST, STOPPING, SUCCEEDED
from tfapp.contract.verdict import Verdict
from tfapp.coordinator import (
    actions,
    causes,
    events,
    failures,
    flexing,
    formation,
    losses,
    verdicts,
)
from tfapp.coordinator.formation import Step
from tfapp.coordinator.state import (
    FINISHED,
    Instance,
    State,
    live,
    started,
    success_instances,
)

# Seconds that a runner gets beyond its grace to end the process tree and to report.
STOP_MARGIN = 10.0
# After a failure nothing is left to save that a longer grace would: seconds, if the grace is not
# shorter anyway.
FAILURE_GRACE = 5.0
# Workers under a chief end with it, not exactly at its time: seconds before they are told to.
# Where there are parameter servers, workers never end by themselves and are told at once.
WORKER_COURTESY = 2.0

_STOPPED = Exit(None, None, "stopped", "ended with the application")


# ---- what happened to one instance -----------------------------------------------------------
def exited(state: State, event: events.Exited) -> Step:
    """A program ended. The report of this generation's program counts; its runner stays where it
    is as long as another generation may come."""
    report = event.report
    instance = state.instances.get(report.instance)
    if instance is None or report.container != instance.container:
        return state, ()
    counted = (report.generation, report.attempt) == (state.generation, instance.attempt)
    if counted and not instance.ended:
        instance = dataclasses.replace(
            instance,
            exit=report.exit,
            report=report,
            host=report.host,
            heard=event.time,
            state=_state_after(report),
        )
        state, done = _consequences(state.with_instance(instance), instance, event.time)
    else:
        state, done = causes.reported_late(state, report, event.time), ()
    state, dismissed = _dismiss(state)
    return state, (*dismissed, *done)


def container_ended(state: State, event: events.ContainerEnded) -> Step:
    """A container is gone: as it should be after a report, a loss without one. That of a runner
    which is silent already may go on where it is cut off from the master: the silence is waited
    for."""
    instance = state.instances.get(event.instance)
    if instance is None or instance.container_ended or event.container != instance.container:
        return state, ()
    if cut_off(state, instance, event.time):
        return state, ()
    instance = dataclasses.replace(instance, container_ended=True)
    if instance.exit is not None and instance.restart_at == math.inf:
        return state.with_instance(instance), ()
    exit = _unreported(state, instance, event.time)
    instance = dataclasses.replace(
        instance, exit=exit, report=None, state=LOST, restart_at=math.inf
    )
    state, more = _consequences(state.with_instance(instance), instance, event.time)
    if state.decided:
        return state, more
    # Only before a runner's first word is its log without anything of the program's.
    silent = event.container if instance.heard is None else ""
    return state, (*more, actions.ListContainers(log_of=silent))


def cut_off(state: State, instance: Instance, time: float) -> bool:
    """Whether the runner of `instance`, which was silent, may be alive where nobody hears it."""
    limits = state.job.limits
    if state.decided or instance.ended or instance.heard is None or not limits.heartbeat_lost:
        return False
    doubtful = instance.heard <= max(time - 2 * limits.heartbeat, state.resumed)
    return doubtful and not _fenced_itself(state, instance, time)


def _unreported(state: State, instance: Instance, time: float) -> Exit:
    """The loss of a container that has ended without a report."""
    if instance.heard is not None and _fenced_itself(state, instance, time):
        return losses.silence(time - instance.heard)
    return losses.unreported()


def _fenced_itself(state: State, instance: Instance, time: float) -> bool:
    """Whether the runner of a container that is gone was not heard of for as long as it goes on
    without its master: then it has ended itself, as it should."""
    limits = state.job.limits
    if instance.heard is None or not limits.heartbeat_lost:
        return False
    return time - instance.heard >= limits.heartbeat_lost - limits.heartbeat


def refused(state: State, event: events.Refused) -> Step:
    """An instance will never have a container."""
    instance = state.instances.get(event.instance)
    if instance is None:
        return state, ()
    exit = Exit(None, None, "start", f"its container was refused: {event.message}")
    instance = dataclasses.replace(instance, exit=exit, state=FAILED, container_ended=True)
    state, more = _consequences(state.with_instance(instance), instance, event.time)
    state, announced = formation.announce(state)
    return state, (*more, *announced)


def silent(state: State, instance: Instance, time: float) -> Step:
    """A runner was not heard of for too long. Its container is ended, wherever it is."""
    exit = losses.silence(time - (instance.heard or 0.0))
    instance = dataclasses.replace(instance, exit=exit, state=LOST, dismissed=True)
    state, more = _consequences(state.with_instance(instance), instance, time)
    # Its master may know more: that the node is lost.
    return state, (*more, actions.KillContainer(instance.container), actions.ListContainers())


def listed(state: State, event: events.Listed) -> Step:
    """The master's list of containers: what it says of a loss belongs to the loss."""
    told = (_told(instance, event.containers) for instance in state.instances.values())
    state = dataclasses.replace(state, containers=event.containers).with_instances(tuple(told))
    if state.failure is not None:
        culprit = _told(state.failure.culprit, event.containers)
        failure = dataclasses.replace(state.failure, culprit=culprit)
        state = dataclasses.replace(state, failure=failure)
    if state.listing and state.phase == FORMING:
        return decide(state, event.time, verdicts.gang_incomplete(state)), ()
    return state, ()


def _told(instance: Instance, containers: Mapping[str, events.ContainerInfo]) -> Instance:
    """The instance with what the master says of its container."""
    info = containers.get(instance.container)
    if info is None:
        return instance
    instance = dataclasses.replace(instance, host=instance.host or info.host)
    if not (info.message and instance.exit):
        return instance
    return dataclasses.replace(instance, exit=losses.completed(instance.exit, info))


def _state_after(report: ExitReport) -> str:
    if report.exit.code == 0:
        return SUCCEEDED
    if report.stopped:
        return KILLED
    return LOST if report.exit.reason in LOSS_REASONS else FAILED


def _consequences(state: State, instance: Instance, time: float) -> Step:
    """`instance` has just ended: what that means for the application."""
    if state.decided:
        return state, ()
    if instance.joining:
        return flexing.withdraw(state, (instance,), time)
    if instance.state == SUCCEEDED:
        return _go_on(check_success(state, time), time)
    # What the master will say of a loss may call for something else.
    explained = instance.exit is not None and instance.exit.reason not in losses.UNEXPLAINED
    if explained and failures.action_for(state, instance) == IGNORE:
        return ignore(state, instance, time)
    return causes.note(state, instance, time)


def _go_on(state: State, time: float) -> Step:
    if state.decided:
        return state, ()
    state, formed = formation.complete(state, time)
    state, released = formation.release(state)
    return state, (*formed, *released)


def ignore(state: State, instance: Instance, time: float) -> Step:
    """The application does without `instance`, whose failure is not one of the application."""
    assert instance.exit is not None
    sentence = verdicts.sentence(instance, state.generation)
    state = state.noted(time, f"{sentence}, which is ignored")
    state = state.with_instance(dataclasses.replace(instance, ignored=True))
    state, done = causes.next_failure(check_success(state, time), time)
    state, more = _go_on(state, time)
    return state, (*done, *more)


def check_success(state: State, time: float) -> State:
    """Decides when all that must succeed has, apart from what is ignored."""
    needed = success_instances(state)
    if state.failure is not None or not needed:
        return state
    if not all(i.state == SUCCEEDED or i.ignored for i in needed):
        return state
    if any(i.state == SUCCEEDED for i in needed):
        return decide(state, time, verdicts.succeeded(state))
    return decide(state, time, verdicts.failed(state, needed[0], state.generation))


# ---- the end of the application --------------------------------------------------------------
def decide(state: State, time: float, verdict: Verdict) -> State:
    """Fixes the verdict. From now on everything is stopped and no failure counts."""
    state = dataclasses.replace(state, phase=STOPPING, verdict=verdict, finish_by=time)
    state = state.noted(time, verdict.summary)
    if not state.formed:
        return state  # no program has been started
    return _plan(state, {i.id: time + _patience(state, i) for i in stoppable(state)})


def hurry(state: State, time: float) -> State:
    """Whoever was given time to finish is told to stop now."""
    return _plan(state, {i.id: min(i.stop_at, time) for i in stoppable(state)})


def unhurried(state: State) -> bool:
    """Whether somebody was given time that is not over yet."""
    return any(i.stop_at > state.ticked for i in stoppable(state))


def stoppable(state: State) -> tuple[Instance, ...]:
    """Those that live and can be told to stop."""
    return tuple(i for i in state.instances.values() if live(i) and not i.ended)


def _plan(state: State, stop_at: dict[str, float]) -> State:
    instances = (dataclasses.replace(state.instances[i], stop_at=at) for i, at in stop_at.items())
    state = state.with_instances(instances)
    running = [i.stop_at for i in state.instances.values() if started(state, i)]
    return dataclasses.replace(
        state, finish_by=max(running, default=-math.inf) + grace(state) + STOP_MARGIN
    )


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
    """What STOPPING does at `time`: orders that are due; the end when nobody is left."""
    state, dismissed = _dismiss(state)
    running = any(started(state, i) for i in state.instances.values())
    if not running or time >= state.finish_by:
        state, done = finish(state)
        return state, (*dismissed, *done)
    due = [i for i in stoppable(state) if i.stop_at <= time and not i.stop_ordered]
    if not due:
        return state, dismissed
    order = Order(state.generation, "stop", grace(state))
    state = state.with_instances(
        dataclasses.replace(i, stop_ordered=True, state=STOPPING) for i in due
    )
    return state, (*dismissed, actions.SendOrders({instance.id: order for instance in due}))


def _dismiss(state: State) -> Step:
    """Lets the runners go whose report is there, once no program will be started in their
    containers any more."""
    policy = state.job.failure
    if not state.decided and (policy.max_restarts > 0 or policy.max_losses > 0):
        return state, ()
    due = [
        i
        for i in state.instances.values()
        if i.report is not None and not (i.dismissed or i.container_ended)
    ]
    if not due:
        return state, ()
    orders = {i.id: Order(state.generation, "exit") for i in due}
    state = state.with_instances(dataclasses.replace(i, dismissed=True) for i in due)
    return state, (actions.SendOrders(orders),)


def finish(state: State) -> Step:
    """The application is over. What still lives ends with its containers."""
    verdict = state.verdict
    assert verdict is not None
    left = (i for i in state.instances.values() if i.exit is None)
    state = state.with_instances(
        dataclasses.replace(i, exit=_STOPPED, state=KILLED, container_ended=True) for i in left
    )
    state = dataclasses.replace(state, phase=FINISHED)
    return state, (actions.Shutdown(verdict),)
