"""How the coordinator's knowledge is shown to everybody else."""

from __future__ import annotations

from tfapp.contract.states import FORMING, SUCCEEDED
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Moment
from tfapp.coordinator.state import FINISHED, State, success_instances


def status(state: State, since: float, now: float) -> ApplicationStatus:
    """`state` as it is published. `since`, `now`: the application's start and the current time,
    seconds since 1970. The verdict is shown when it is final, not when it is decided."""
    final = state.phase == FINISHED and state.verdict is not None
    return ApplicationStatus(
        name=state.job.name,
        state=state.verdict.state if final and state.verdict else state.phase,
        generation=state.generation,
        started=since,
        updated=now,
        instances=tuple(
            InstanceStatus(
                instance=instance.id,
                component=instance.component,
                role=instance.role,
                state=instance.state,
                container=instance.container,
                host=instance.host,
                exports=instance.answer.exports if instance.answer else {},
                exit=instance.exit,
                docker=instance.docker,
                preparing="" if instance.ended else instance.preparing,
            )
            for instance in state.instances.values()
        ),
        verdict=state.verdict if final else None,
        restarts=state.restarts,
        losses=state.losses,
        timeline=tuple(
            Moment(round(since + time - state.started, 3), text) for time, text in state.timeline
        ),
        stop_grace=state.job.limits.stop_grace,
    )


def progress(state: State) -> float:
    """The share of the application that is done, 0 to 1: a tenth for forming, the rest by the
    instances that have to succeed."""
    if state.phase == FORMING:
        answered = sum(i.answer is not None for i in state.instances.values())
        return 0.1 * answered / max(len(state.instances), 1)
    needed = success_instances(state)
    done = sum(instance.state == SUCCEEDED for instance in needed)
    return 0.1 + 0.9 * done / max(len(needed), 1)
