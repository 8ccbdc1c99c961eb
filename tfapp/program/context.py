"""The context of a function: which instance it runs as."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.errors import ProgramError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.feed.program.context import Feed

Exports = Mapping[str, Mapping[str, str]]


@frozen
class Member:
    """One instance of the cluster. `instance`: "worker/1". `role`: "chief", "worker", "ps",
    "evaluator", "tensorboard" or "other". `exports`: group -> name -> value."""

    instance: str
    component: str
    index: int
    role: str
    host: str
    exports: Exports


@frozen
class Context:
    """The context of a program. It is passed to a function with one parameter.

    - `role`: "chief", "worker", "ps", "evaluator" or "other"
    - `instance`: "worker/1", the instance with number `index` of component `component`. The name is
      the same after a replacement
    - `generation`: the number of the present cluster, from 1
    - `cluster`: as in TF_CONFIG, role -> addresses ("host:port"). `task`: as in TF_CONFIG,
      ("worker", 1). Both are empty for a role outside the TensorFlow cluster
    - `checkpoint_dir`: a path or a URL. All instances see it if a checkpoint prefix is configured
    - `data_dir`: a path, a URL or ""
    - `work_dir`: a folder of this instance alone
    - `members`: all instances of the application, in job order

    >>> def train(context):
    ...     context.report(loss=0.25, step=10)
    ...     return {"trained by": context.instance, "in generation": context.generation}
    >>> train(Context(role="chief", component="chief"))
    {'trained by': 'chief/0', 'in generation': 1}
    """

    role: str = "worker"
    component: str = "worker"
    index: int = 0
    generation: int = 1
    cluster: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    task: tuple[str, int] | None = None
    checkpoint_dir: str = ""
    data_dir: str = ""
    work_dir: Path = Path(".")
    application: str = ""
    host: str = "127.0.0.1"
    members: tuple[Member, ...] = ()

    @property
    def instance(self) -> str:
        """ "worker/1"."""
        return f"{self.component}/{self.index}"

    @property
    def trainers(self) -> int:
        return sum(len(self.cluster.get(role, ())) for role in ("chief", "worker"))

    @property
    def has_evaluator(self) -> bool:
        return any(member.role == "evaluator" for member in self.members)

    def hides(self, folder: str) -> bool:
        """Whether `folder`, a path or a URL, is in this container, where no other instance of the
        application sees it."""
        private = str(self.work_dir.absolute().parent) + os.sep  # the container's own folder
        return (
            bool(self.members)
            and "://" not in folder
            and os.path.abspath(folder).startswith(private)
        )

    @property
    def exports(self) -> dict[str, Exports]:
        """The exports of all instances: instance -> group -> name -> value. For example
        `exports["worker/0"]["worker"]["host_port"]`."""
        return {member.instance: member.exports for member in self.members}

    @functools.cached_property
    def feed(self) -> Feed:
        """The feed of rows from Spark. ProgramError if the application is not fed."""
        try:
            from tfapp.feed.program.context import EXPORT, VARIABLE, Feed
        except ModuleNotFoundError:  # it did not travel
            raise ProgramError(
                "this program is fed by nobody",
                "Submit it with feed=True, and call feed(data) of what submit returns.",
            ) from None
        address = self.exports.get(self.instance, {}).get(self.component, {}).get(EXPORT, "")
        return Feed(address, os.environ.get(VARIABLE, ""), self.work_dir)

    def report(
        self,
        metrics: Mapping[str, float] | None = None,
        *,
        step: int | None = None,
        total: int | None = None,
        **more: float,
    ) -> None:
        """Reports metrics to the application: `metrics` maps names to numbers; `more` are further
        metrics as keywords. `step`: the training step of the values. `total`: the step at which the
        training ends, for percent and the time left; once is enough. It is cheap enough to be
        called at every step: only the last values are sent, at most once a second."""
        from tfapp.program import reporting

        reporting.report({**(metrics or {}), **more}, step, total)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Context:
        """The context of a process with this environment. Missing variables get defaults, so that a
        function can also be called outside an application."""
        config = json.loads(environ.get("TF_CONFIG") or "{}")
        task = config.get("task")
        file = environ.get("TFAPP_CLUSTER_FILE")
        members = json.loads(Path(file).read_bytes())["members"] if file else ()
        return cls(
            role=environ.get("TFAPP_ROLE", "worker"),
            component=environ.get("TFAPP_COMPONENT", "worker"),
            index=int(environ.get("TFAPP_INDEX", "0")),
            generation=int(environ.get("TFAPP_GENERATION", "1")),
            cluster={role: tuple(at) for role, at in config.get("cluster", {}).items()},
            task=(task["type"], task["index"]) if task else None,
            checkpoint_dir=environ.get("TFAPP_CHECKPOINT_DIR", ""),
            data_dir=environ.get("TFAPP_DATA_DIR", ""),
            work_dir=Path(environ.get("TFAPP_WORK_DIR", ".")),
            application=environ.get("TFAPP_APPLICATION", ""),
            host=environ.get("TFAPP_HOST", "127.0.0.1"),
            members=tuple(Member(**member) for member in members),
        )


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def accepts_context(function: Callable[..., Any]) -> bool:
    """Whether a function takes the `Context`: it has one parameter without a default, or its first
    parameter is named `context` or annotated as `Context`. ProgramError if it requires more
    arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a built-in function that does not tell
    needed = [p for p in parameters if p.default is p.empty and p.kind not in _MANY]
    if len(needed) > 1 or any(p.kind not in _POSITIONAL for p in needed):
        names = ", ".join(p.name for p in needed)
        name = getattr(function, "__name__", None) or getattr(
            getattr(function, "func", None), "__name__", "the program"
        )
        raise ProgramError(
            f"{name} has the parameters {names}, and is called with nothing or with the "
            "tfapp.Context alone",
            "Give the others a default, or bind them with functools.partial.",
        )
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    return bool(needed) or any(_is_context(p) for p in positional[:1])


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    written = annotation if isinstance(annotation, str) else ""
    return (
        parameter.name == "context"
        or annotation is Context
        or written in ("Context", "tfapp.Context")
    )
