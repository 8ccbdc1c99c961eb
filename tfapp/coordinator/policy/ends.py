"""Handles the ends of programs and containers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfapp.contract.exit import Exit
from tfapp.contract.names import CANNOT_START, FORMING
from tfapp.coordinator.policy import (
    actions,
    elastic,
    ending,
    events,
    flexing,
    forming,
    judging,
    stacks,
    verdicts,
)
from tfapp.coordinator.policy.events import ContainerInfo
from tfapp.coordinator.policy.forming import Step
from tfapp.coordinator.policy.state import Instance, Intent, Stage, State
from tfapp.coordinator.policy.verdicts import duration
from tfapp.frozen import replace

UNREPORTED = "its container ended without a report"


def exited(state: State, event: events.Exited) -> Step:
    """A program ended. Only the first report of this generation's program counts. The instance
    keeps its runner as long as another generation may come."""
    report = event.report
    instance = state.instances.get(report.instance)
    if instance is None or report.container != instance.container:
        return state, ()
    counted = (report.generation, report.attempt) == (state.generation, instance.attempt)
    if not counted or instance.ended:
        return judging.collect_late(state, report), ()
    instance = replace(
        forming.placed(instance, event.time),
        stage=Stage.ENDED,
        exit=stacks.explained(state, instance, report.exit),
        report=report,
        host=report.host,
        heard=event.time,
    ).measured(report)
    state, done = _ended(state, instance, event.time)
    state, dismissed = ending.dismiss(state)
    return state, (*dismissed, *done)


def container_ended(state: State, event: events.ContainerEnded) -> Step:
    """A container ended: as expected after a report, otherwise it is a loss. A runner that was
    already silent may be cut off from the master and still be alive; then nothing happens until its
    silence counts as a loss."""
    instance = state.instances.get(event.instance)
    if instance is None or event.container != instance.container:
        return state, ()
    if instance.stage is Stage.GONE or cut_off(state, instance, event.time):
        return state, ()
    if instance.ended and instance.intent is not Intent.RESTART:
        return state.with_instance(replace(instance, stage=Stage.GONE)), ()
    exit = Exit(None, None, "lost", UNREPORTED)
    if instance.heard is not None and _fenced_itself(state, instance, event.time):
        exit = silence(event.time - instance.heard)
    intent = Intent.RUN if instance.intent is Intent.RESTART else instance.intent
    instance = replace(instance, stage=Stage.GONE, intent=intent, exit=exit, report=None)
    state, more = _ended(state, instance, event.time)
    if state.decided:
        return state, more
    # The log is read only if the runner was never heard of: it has no output of the program then.
    unheard = event.container if instance.heard is None else ""
    return state, (*more, actions.ListContainers(log_of=unheard))


def cut_off(state: State, instance: Instance, time: float) -> bool:
    """Whether the runner of `instance` has been silent, and may be alive but cut off from the
    master."""
    limits = state.job.limits
    if state.decided or instance.ended or instance.heard is None or not limits.heartbeat_lost:
        return False
    doubtful = instance.heard <= max(time - 2 * limits.heartbeat, state.resumed)
    return doubtful and not _fenced_itself(state, instance, time)


def _fenced_itself(state: State, instance: Instance, time: float) -> bool:
    """Whether the runner was silent for so long that it must have killed its program and exited."""
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
    instance = replace(instance, stage=Stage.GONE, exit=exit)
    state, more = _ended(state, instance, event.time)
    state, announced = forming.announce(state)
    return state, (*more, *announced)


def silent(state: State, instance: Instance, time: float) -> Step:
    """A runner was silent for too long: its container is killed."""
    exit = silence(time - (instance.heard or 0.0))
    instance = replace(instance, stage=Stage.GONE, exit=exit)
    state, more = _ended(state, instance, time)
    # The master may know the reason, such as a lost node.
    return state, (*more, actions.KillContainer(instance.container), actions.ListContainers())


def _ended(state: State, instance: Instance, time: float) -> Step:
    """Handles the end of an instance. `instance`: its state after the end."""
    state = state.with_instance(instance)
    if state.decided:
        return state, ()
    if instance.intent is Intent.JOIN:
        return flexing.withdraw(state, (instance,), time)
    if instance.intent is Intent.LATE:
        return elastic.ended(state, instance, time)
    if not instance.succeeded:
        return judging.collect(state, instance, time), ()
    return ending.check_success(state, time), ()


# ---- the master's information about containers that ended ----------------------------------
def listed(state: State, event: events.Listed) -> Step:
    """Handles the master's list of containers. Its reasons are added to the losses that are
    known."""
    told = tuple(_told(instance, event.containers) for instance in state.instances.values())
    state = replace(state, containers=event.containers).with_instances(told)
    if state.failure is not None:
        known = tuple(_told(end, event.containers) for end in state.failure.ends)
        state = state.with_failure(ends=known, looked=False)
    if state.listing and state.phase == FORMING:
        return ending.decide(state, event.time, verdicts.gang_incomplete(state)), ()
    return state, ()


def _told(instance: Instance, containers: Mapping[str, ContainerInfo]) -> Instance:
    """The instance with the master's information about its container."""
    info = containers.get(instance.container)
    if info is None:
        return instance
    instance = replace(instance, host=instance.host or info.host)
    if not (info.message and instance.exit) or info.log_by > -math.inf:
        return instance
    return replace(instance, exit=completed(instance.exit, info))


def silence(seconds: float) -> Exit:
    """The exit of an instance whose runner was silent for `seconds`."""
    return Exit(None, None, "silent", f"nothing was heard of it for {duration(seconds)}")


def completed(exit: Exit, info: ContainerInfo) -> Exit:
    """`exit` with the master's information about the container."""
    if exit.text == UNREPORTED:
        return explained(info)
    if exit.reason != "silent" or not info.reason:
        return exit
    return Exit(None, None, info.reason, f"{exit.text}: {info.message}")


def explained(info: ContainerInfo) -> Exit:
    """The exit of a container that ended without a report, from its log and the master's
    message."""
    lines = [line.strip() for line in info.log.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(CANNOT_START):
            return Exit(None, None, "start", line[len(CANNOT_START) :])
    if info.reason == "memory":
        return Exit(None, None, "memory", f"killed for its memory ({info.message})")
    if info.reason == "start":
        return Exit(None, None, "start", info.message)
    last = lines[-1] if lines else info.message
    return Exit(None, None, info.reason or "lost", f"{UNREPORTED}: {last}")
