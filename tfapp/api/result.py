"""The result of an application."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.api import notebook
from tfapp.api.returned import Lazy, fetch_returned
from tfapp.contract import last_lines
from tfapp.contract.metrics import floats
from tfapp.contract.names import SUCCEEDED
from tfapp.contract.status import ApplicationStatus, Cause
from tfapp.engines import base
from tfapp.engines.base import Engine
from tfapp.errors import ExitCode, NotFoundError, RemoteError, remote_error
from tfapp.launch.logs import primary_instance, select_logs


@dataclasses.dataclass(frozen=True)
class InstanceResult:
    """The end of one instance. `exit`: in words. `seconds`: the run time of its program, None if
    unknown. `metrics`: the last values, reported at `step`."""

    state: str
    host: str
    exit: str
    seconds: float | None
    metrics: Mapping[str, float]
    step: int | None


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of an application, as returned by `tfapp.run`.

    - `state`: "SUCCEEDED", "FAILED" or "KILLED"
    - `summary`: the verdict in one or two sentences
    - `cause`: the failure that decided the verdict; None after success
    - `exit_code`: the exit code of `tfapp create`
    - `duration`: seconds from start to end
    - `restarts`, `losses`: how often the cluster was formed again after a failure of a program, and
      after an infrastructure loss; `generation`: the number of the last cluster
    - `instances`: the end of each instance
    - `exports`: {instance: {group: {name: value}}}
    - `checkpoint_dir`: the checkpoint folder; "" without one that outlives the application
    - `returned`: the return value of each instance's program, and `logs`: its output. Both are
      fetched at the first access. `returned["worker/1"]` raises ReturnedError for a value that is
      not plain data or is too large

    It can be pickled: with all that programs returned, and with those logs that were read before.

    >>> result = tfapp.run(lambda: 6 * 7, tfapp.all_reduce(2), name="doc-result", show=False)
    >>> result.state, result.value, dict(result.returned)
    ('SUCCEEDED', 42, {'worker/0': 42, 'worker/1': 42})
    >>> sorted(result.instances)
    ['worker/0', 'worker/1']
    """

    name: str
    engine: str
    id: str
    state: str
    summary: str
    cause: Cause | None
    exit_code: int
    duration: float
    generation: int | None
    restarts: int | None
    losses: int | None
    instances: Mapping[str, InstanceResult]
    exports: Mapping[str, Mapping[str, Mapping[str, str]]]
    checkpoint_dir: str
    returned: Mapping[str, Any]
    logs: Mapping[str, str]
    primary: str  # the instance whose output and values stand for the application's

    @property
    def succeeded(self) -> bool:
        """Whether the success policy of the application was met."""
        return self.state == SUCCEEDED

    @property
    def value(self) -> Any:
        """The value that the program of the chief returned; without a chief, that of the first
        worker."""
        return self.returned.get(self.primary)

    @property
    def metrics(self) -> Mapping[str, float]:
        """The last metrics of the chief; without a chief, of the first worker."""
        return self.instances[self.primary].metrics if self.primary in self.instances else {}

    @property
    def last_lines(self) -> str:
        """The last lines of the program whose failure decided the verdict."""
        return self.cause.last_lines if self.cause is not None else ""

    @property
    def raised(self) -> RemoteError | None:
        """The exception that ended that program, as far as its last lines tell."""
        found = last_lines.raised(self.last_lines)
        if self.cause is None or found is None:
            return None
        kind, traceback = found
        return remote_error(kind, self.cause.instance, traceback)

    def __repr__(self) -> str:
        return f"<tfapp.Result {self.name}: {self.summary} ({self.duration:.1f} s)>"

    def _repr_html_(self) -> str:
        facts = [
            ("took", f"{self.duration:.1f} s"),
            ("generation", self.generation),
            ("restarts", self.restarts),
            ("checkpoints", self.checkpoint_dir),
            *((name, f"{value:.6g}") for name, value in self.metrics.items()),
        ]
        return notebook.facts_table(self.name, self.summary, facts)


def result_of(engine: Engine, application: base.Application, pickles: bool) -> Result:
    """The result of an application that has ended."""
    status = application.status
    name, run = application.name, application.run
    verdict = status.verdict
    primary = primary_instance(status)
    names = tuple(i.instance for i in status.instances)
    returned = fetch_returned(engine, name, run, pickles)
    return Result(
        name=name,
        engine=application.engine,
        id=application.id,
        state=status.state,
        summary=verdict.summary if verdict is not None else status.state,
        cause=verdict.cause if verdict is not None else None,
        exit_code=verdict.exit_code if verdict is not None else ExitCode.FAILED,
        duration=max(status.updated - status.started, 0.0),
        generation=status.generation,
        restarts=status.restarts,
        losses=status.losses,
        instances=_instances(status),
        exports={i.instance: i.exports for i in status.instances if i.exports},
        checkpoint_dir=status.checkpoint_dir,
        returned=returned,
        logs=Lazy(
            lambda: names,
            lambda one: logs_of(engine, name, run, one)[one],
            left_behind=NotFoundError(
                f"the logs of {name} are not in a pickle of its result",
                f"tfapp.open({name!r}, run={run}).logs() has them.",
            ),
        ),
        primary=primary.instance if primary is not None else "",
    )


def _instances(status: ApplicationStatus) -> dict[str, InstanceResult]:
    return {
        i.instance: InstanceResult(
            i.state, i.host, i.exit.text if i.exit else "", i.seconds, floats(i.metrics), i.step
        )
        for i in status.instances
    }


def logs_of(
    engine: Engine, name: str, run: int, what: str = "", tail: int | None = None
) -> dict[str, str]:
    """The output of the instances that `what` selects, by instance; see Application.logs."""
    found: dict[str, str] = {}
    missing = ""
    for log in select_logs(engine.logs(name, run), what):
        missing = missing or log.missing
        if (what or "/" in log.instance) and log.path.exists():
            text = log.path.read_text(encoding="utf-8", errors="replace")
            found[log.instance] = found.get(log.instance, "") + text
    if what and not found:
        hint = missing or f"`tfapp status {name}` says how it stands."
        raise NotFoundError(f"{name} has no log {what!r}", hint)
    if tail is not None:
        found = {one: _last(text, tail) for one, text in found.items()}
    return found


def _last(text: str, count: int) -> str:
    return "".join(text.splitlines(keepends=True)[-count:]) if count > 0 else ""
