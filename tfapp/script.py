"""The interface of an app package's scripts: `class Script`, its arguments and results.

Standard library only: this module travels with every application. A package's script is one
file with one subclass of `Script`:

    class Trainer(Script):
        def start(self, context):
            return Program(argv=(context.python, str(context.files_dir / "train.py")))
"""

from __future__ import annotations

import dataclasses
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tfapp.contract.job import ComponentJob, Job
from tfapp.contract.messages import Member
from tfapp.contract.names import instance_id
from tfapp.frozen import frozen


class ScriptError(Exception):
    """A script's refusal to go on, as one sentence for the user. It is shown without a
    traceback; any other exception of a script is shown with the script's own."""


class ProgramMissingError(ScriptError):
    """The file to run does not exist, or is no program."""


@frozen
class Executed:
    """The result of a program that was run to its end. `code` is None after a signal."""

    code: int | None
    output: str
    errors: str


def _nowhere(argv: Sequence[str], limit: float) -> Executed:
    raise ScriptError(f"{argv[0]} cannot be run: this context belongs to no runner")


@frozen
class Context:
    """The instance, as its script sees it. In `prepare` there are no ports, exports and members
    yet, and the hosts in `config` are not known."""

    job: Job
    component: ComponentJob
    index: int  # of the instance, from 0; kept by a replacement
    generation: int
    host: str  # the name under which other instances reach this one
    python: str  # interpreter for the user's program
    work_dir: Path  # writable, private, empty but for links to what stands in files_dir
    log_dir: Path
    files_dir: Path  # the user's program; do not write here
    package_dir: Path  # the app package
    checkpoint_dir: str  # visible to every instance; a path or a URL
    data_dir: str  # a path, a URL or ""
    env: Mapping[str, str]  # what the program gets unless `Program.env` says otherwise
    config: Mapping[str, str]  # site.global.*, without that prefix, placeholders replaced
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # config key -> held port
    exports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    members: tuple[Member, ...] = ()  # the whole cluster, in job order, then by index
    # (full key, text) -> the text with its placeholders replaced
    expand: Callable[[str, str], str] = lambda key, text: text
    # (argv, seconds) -> what became of it, run to its end where and as the program will be run.
    # ProgramMissingError when there is no such program; ScriptError when it takes longer, or
    # nothing can be run.
    execute: Callable[[Sequence[str], float], Executed] = _nowhere

    @property
    def instance(self) -> str:
        """ "worker/1"."""
        return instance_id(self.component.name, self.index)

    def words(self, key: str) -> tuple[str, ...]:
        """The words of a `site.global.` value, split as a shell does, and only then with its
        placeholders replaced: what is put in never splits a word. ScriptError when a quotation
        is not closed."""
        full = f"site.global.{key}"
        try:
            words = shlex.split(self.component.site.get(full, ""))
        except ValueError as error:
            raise ScriptError(f"{full} cannot be split into words: {error}") from None
        return tuple(self.expand(full, word) for word in words)


@frozen
class Program:
    """The program to run for an instance, as a process of its own."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)  # over `Context.env`
    cwd: Path | None = None  # None: the context's work_dir
    # Config keys whose ports the runner lets go just before the start. The others stay bound
    # by it, with SO_REUSEPORT set: a program that binds one must set that option as well.
    release_ports: tuple[str, ...] = ()


class Handle(Protocol):
    """The running program, in the hands of `stop` and `status`."""

    @property
    def pid(self) -> int:
        """Of the program itself, the leader of its process group and session."""

    def running(self) -> bool:
        """Whether the program itself is still there."""

    def signal(self, number: int) -> None:
        """Sends a signal to the program and all of its process group. Nothing happens when
        it has ended."""


class Script:
    """One component's behaviour. Each call may take the component's script timeout, no more."""

    def prepare(self, context: Context) -> None:
        """Called once, before the instance says that it is there. ScriptError when its program
        can never run here."""

    def start(self, context: Context) -> Program:
        """The program to run. Called for each generation, when the whole cluster is known; the
        runner starts the program and watches it."""
        raise NotImplementedError(f"{type(self).__name__} has no start()")

    def stop(self, context: Context, handle: Handle) -> None:
        """Asks the program to end, by the signal of `site.global.stop.signal`. Processes that have
        not ended when the grace is over are killed."""
        handle.signal(signal.Signals[context.config.get("stop.signal", "SIGTERM")])

    def status(self, context: Context, handle: Handle) -> bool:
        """Whether the program is well. Asked at every heartbeat; after False the program is
        killed and reported as failed."""
        return handle.running()
