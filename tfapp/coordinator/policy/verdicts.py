"""The sentences of every verdict."""

from __future__ import annotations

from collections.abc import Sequence

from tfapp.contract.encoding import encode
from tfapp.contract.exit import LOSS_REASONS, Exit
from tfapp.contract.job import queue_limit
from tfapp.contract.last_lines import last_word
from tfapp.contract.names import FAILED, KILLED, SUCCEEDED, trains_alone
from tfapp.contract.status import Cause, Verdict
from tfapp.coordinator.policy.state import Instance, Intent, State, holding, success_instances
from tfapp.errors import ExitCode
from tfapp.frozen import replace

_MAX_LINES = 10 * 1024  # bytes of a cause's last lines as JSON, so that they fit the diagnostics
_MAX_TEXT = 1000  # characters of somebody else's message inside a sentence of tfapp
_PREFIX = "site.global.user.checkpoint.prefix"
_MAX_NAMES = 10  # instances named in one sentence


def succeeded(state: State, time: float) -> Verdict:
    instances = success_instances(state)
    if len(instances) == 1:
        who = instances[0].id
    else:
        deciding = state.job.success
        by_component = dict.fromkeys(i.component for i in instances if i.id not in deciding)
        alone = [i.id for i in instances if i.component not in by_component]
        many = len(instances) - len(alone)
        of_all = f"all {many} instances of {', '.join(by_component)}" if by_component else ""
        who = " and ".join(filter(None, (of_all, names(alone))))
    summary = f"Succeeded: {who} ended with exit code 0 after {duration(time - state.started)}."
    for other in state.instances.values():
        if other.exit is not None and other.intent is Intent.IGNORE:
            summary += f" {other.id} {_ending(other.exit)}. The application does not depend on it."
    summary += _history(state)
    return Verdict(SUCCEEDED, int(ExitCode.SUCCESS), summary)


def sentence(instance: Instance, generation: int) -> str:
    """A sentence, without a full stop, on the failure of `instance` in `generation`. The instance
    has an exit."""
    exit = instance.exit
    assert exit is not None
    where = f" on {instance.host}" if instance.host else ""
    report = instance.report
    when = f" in generation {generation}"
    if report and report.seconds:
        when += f", {duration(report.seconds)} after its start"
    why = last_word(report.last_lines) if report and exit.reason == "exit" else ""
    return f"{instance.id}{where} {_ending(exit, when)}{why and f': {why}'}"


def failed(state: State, instance: Instance, generation: int, objection: str = "") -> Verdict:
    """The failure of `instance`, which has an exit, in `generation` ends the application.
    `objection`: a sentence that says why it was not restarted."""
    exit, report = instance.exit, instance.report
    assert exit is not None
    late = exit.reason == "timeout"
    summary = f"{'Timed out' if late else 'Failed'}: {sentence(instance, generation)}."
    if late:
        summary += f" The limit is commandScript.timeout of {instance.component}."
    summary += f" {objection}" if objection else _history(state)
    cause = Cause(
        instance=instance.id,
        generation=generation,
        host=instance.host,
        container=instance.container,
        exit=replace(exit, text=_cut(exit.text)),
        last_lines=_fitting(report.last_lines) if report else "",
    )
    code = ExitCode.TIMED_OUT if late else ExitCode.FAILED
    return Verdict(FAILED, int(code), summary, cause)


def killed(state: State, message: str) -> Verdict:
    """The application was asked to stop before the success policy was met."""
    text = _cut(message) or "it was asked to stop"
    return Verdict(
        KILLED,
        int(ExitCode.KILLED),
        f"Killed: {text.rstrip('.')}.{_history(state)}",
        _nowhere(state, "stopped", text),
    )


def master_lost(state: State, objection: str, why: str = "") -> Verdict:
    """The application's master was lost, because of `why`, if known. `objection`: a sentence that
    says why that is its end."""
    text = f"the application's master was lost{why and f': {why}'}"
    summary = f"Failed: {text}. {objection}".rstrip()
    return Verdict(FAILED, int(ExitCode.FAILED), summary, _nowhere(state, "lost", text))


def gang_incomplete(state: State) -> Verdict:
    limit = duration(state.job.limits.gang)
    absent = [
        i for i in state.instances.values() if i.answer is None and not i.ended and not i.joins
    ]
    missing = [f"{i.id} ({_whereabouts(state, i)})" for i in absent]
    since = f"after generation {state.generation} began"
    if state.counted > state.began:
        since = f"after no scheduler held one of generation {state.generation} back any more"
    text = f"not all instances were ready {limit} {since}"
    return Verdict(
        FAILED,
        int(ExitCode.TIMED_OUT),
        f"Timed out: {text}. Missing: {names(missing)}. The limit is site.global.gang.timeout."
        + _limit_of_pulls(state, absent)
        + _history(state),
        _nowhere(state, "deadline", text),
    )


def held_too_long(state: State) -> Verdict:
    """A scheduler holds containers back, and the time for that is over."""
    hold = state.hold
    assert hold is not None
    limit = duration(queue_limit(state.job.limits.queue, hold.kind))
    waiting = [f"{i.id} is {_cut(i.preparing).rstrip('.')}" for i in holding(state)]
    text = f"generation {state.generation} did not get all its containers for {limit}"
    return Verdict(
        FAILED,
        int(ExitCode.TIMED_OUT),
        f"Timed out: {text}: {names(waiting)}. The limit is site.global.queue.timeout."
        + _history(state),
        _nowhere(state, "deadline", text),
    )


def lifetime_over(state: State) -> Verdict:
    text = f"the application ran for its whole lifetime of {duration(state.job.limits.lifetime)}"
    summary = f"Timed out: {text}. The limit is site.global.application.lifetime."
    summary += _history(state)
    return Verdict(FAILED, int(ExitCode.TIMED_OUT), summary, _nowhere(state, "deadline", text))


def nothing_to_run(state: State) -> Verdict:
    text = "no component has an instance"
    summary = f"Failed: {text}. Ask for some with yarn.component.instances."
    return Verdict(FAILED, int(ExitCode.BAD_CONFIGURATION), summary, _nowhere(state, "start", text))


def bug(state: State, error: BaseException) -> Verdict:
    text = _cut(f"{type(error).__name__}: {error}")
    summary = (
        f"Failed: a bug in tfapp ended the coordinator: {text}. Please report it with the "
        "coordinator's log, which has the details."
    )
    return Verdict(FAILED, int(ExitCode.INTERNAL_ERROR), summary, _nowhere(state, "script", text))


def _history(state: State) -> str:
    """Sentences on earlier restarts, "" if there were none."""
    total = state.charges.restarts + state.charges.losses
    restarted = f" It was restarted {times(total)} before." if total else ""
    return restarted + _beginning(state)


def _beginning(state: State) -> str:
    """From where the last generation's programs began, as far as that is certain without their
    checkpoints: a sentence where these stay in the containers and it is not the first generation;
    "" for any other application. Runners empty their folders alike: `Supervisor.choose`."""
    number, instances = state.generation, state.instances.values()
    if number == 1 or any(c.settings.text("user.checkpoint.prefix") for c in state.job.components):
        return ""
    if not state.job.trains_alone(instance.role for instance in instances):
        return f" Generation {number} began with empty checkpoint folders ({_PREFIX} is not set)."
    for one in instances:
        if one.requested_in > 1 and not trains_alone((one.role, one.role)):
            return (
                f" {one.id} began generation {one.requested_in} with an empty checkpoint folder, "
                f"in another container ({_PREFIX} is not set)."
            )
    return f" Generation {number} had the checkpoint folder of the same container."


def times(count: int) -> str:
    """1 -> "once"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def duration(seconds: float) -> str:
    """12.3 -> "12 s", 200 -> "3 min 20 s", 7320 -> "2 h 2 min"; below 10 s one decimal."""
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes and rest else _whole(minutes, rest)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _whole(minutes: int, seconds: int) -> str:
    return f"{minutes} min" if minutes else f"{seconds} s"


def _ending(exit: Exit, when: str = "") -> str:
    """The predicate of a sentence on the end of an instance: "was killed by SIGKILL". `when` is put
    in its right place."""
    text = _cut(exit.text).rstrip(".")
    if exit.reason == "exit":
        return f"ended with {text}{when}"
    if exit.reason in ("signal", "memory"):
        return f"was {text}{when}"
    verb = {
        **dict.fromkeys(LOSS_REASONS, "was lost"),
        "hang": "hung",
        "start": "could not be started",
        "timeout": "was not started",
        "script": "failed in the package's script",
    }
    return f"{verb.get(exit.reason, 'ended')}{when}: {text}"


def names(items: Sequence[str]) -> str:
    """The items as a list with commas; after _MAX_NAMES of them, "and 3 more"."""
    text = ", ".join(items[:_MAX_NAMES])
    return text if len(items) <= _MAX_NAMES else f"{text} and {len(items) - _MAX_NAMES} more"


def _limit_of_pulls(state: State, absent: Sequence[Instance]) -> str:
    """A sentence on the time limit of image pulls, "" if no image is being pulled."""
    prepared = (i for i in absent if i.preparing and i.heard is not None)
    pulling = (state.job.component(i.component).docker for i in prepared)
    limits = [docker.pull_timeout for docker in pulling if docker is not None]
    if not limits:
        return ""
    return (
        " It includes the pull of an image, which has a limit of its own, "
        f"site.global.docker.pull.timeout ({duration(min(limits))})."
    )


def _whereabouts(state: State, instance: Instance) -> str:
    if instance.preparing:
        host = f" on {instance.host}" if instance.host else ""
        return f"its container {instance.container}{host} is still {_cut(instance.preparing)}"
    info = state.containers.get(instance.container)
    if info is None:
        return f"container {instance.container}" if instance.container else "no container"
    if info.state == "RUNNING":
        host = f" on {info.host}" if info.host else ""
        return f"its container {instance.container} runs{host}, but its runner has not answered"
    if info.state in ("WAITING", "REQUESTED"):
        return f"its container {instance.container} was requested and not granted"
    return f"its container {instance.container} has ended: {info.state}"


def _nowhere(state: State, reason: str, text: str) -> Cause:
    return Cause("", state.generation, "", "", Exit(None, None, reason, text))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _fitting(lines: str) -> str:
    """As much of the end of `lines` as fits. A control character takes six bytes in JSON."""
    while len(encode(lines)) > _MAX_LINES:
        lines = lines[max(len(lines) // 8, 1) :]
    return lines
