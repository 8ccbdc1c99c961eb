"""The interface of an app package's scripts: `class Script`, its arguments and results.

This module is shipped to containers, so it uses the standard library only. A package's script is
one file with one subclass of `Script`:

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
from types import MappingProxyType
from typing import Protocol

from tfapp.contract.job import ComponentJob, Job
from tfapp.contract.messages import Member
from tfapp.contract.names import instance_id
from tfapp.frozen import frozen


class ScriptError(Exception):
    """An error of a script, with one sentence for the user. It is shown without a traceback; other
    exceptions are shown with the traceback of the script."""


class ProgramMissingError(ScriptError):
    """The program to run does not exist, or is not executable."""


@frozen
class Executed:
    """The result of a program that has ended. `code`: its exit code, None after a signal."""

    code: int | None
    output: str
    errors: str


def _nowhere(argv: Sequence[str], limit: float) -> Executed:
    raise ScriptError(f"{argv[0]} cannot be run: this context belongs to no runner")


@frozen
class Context:
    """The instance for which a script is called. In `prepare` there are no ports, exports and
    members yet, and placeholders for hosts in `config` are not replaced."""

    job: Job
    component: ComponentJob
    index: int  # number of the instance in its component, from 0; a replacement keeps it
    generation: int
    host: str  # the host name or address by which other instances reach this one
    python: str  # path of the interpreter for the user's program
    work_dir: Path  # writable, private, empty except for links to the content of files_dir
    log_dir: Path
    files_dir: Path  # the user's program; do not write here
    package_dir: Path  # the app package
    checkpoint_dir: str  # visible to every instance; a path or a URL
    data_dir: str  # a path, a URL or ""
    env: Mapping[str, str]  # the program's environment, which `Program.env` can override
    config: Mapping[str, str]  # site.global.*, without that prefix, placeholders replaced
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # config key -> held port
    exports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    members: tuple[Member, ...] = ()  # the whole cluster, in job order, then by index
    # (full key, text) -> the text with its placeholders replaced
    expand: Callable[[str, str], str] = lambda key, text: text
    # (argv, seconds) -> the result. Runs a program to its end, in the same place and way as the
    # user's program (in its Docker container, for example). ProgramMissingError if there is no such
    # program; ScriptError if it takes longer than `seconds`, or nothing can be run.
    execute: Callable[[Sequence[str], float], Executed] = _nowhere

    @property
    def instance(self) -> str:
        """The name of the instance, such as "worker/1"."""
        return instance_id(self.component.name, self.index)

    def words(self, key: str) -> tuple[str, ...]:
        """The words of the value of `key`, which is named without `site.global.`. The value is
        split as by a shell before placeholders are replaced, so a replacement never becomes several
        words. ScriptError if a quotation is not closed."""
        full = f"site.global.{key}"
        try:
            words = shlex.split(self.component.site.get(full, ""))
        except ValueError as error:
            raise ScriptError(f"{full} cannot be split into words: {error}") from None
        return tuple(self.expand(full, word) for word in words)


@frozen
class Program:
    """The program that the runner starts for an instance. `argv`: the program and its
    arguments; with `entry_point`, the arguments alone."""

    argv: tuple[str, ...]
    # Variables that are added to `Context.env`, or override it.
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Working directory; None: `Context.work_dir`, or with `of_image` the image's own.
    cwd: Path | None = None
    # Config keys whose ports the runner releases just before the start. The runner keeps the other
    # ports bound, with SO_REUSEPORT set: a program that binds one must set this option too.
    release_ports: tuple[str, ...] = ()
    of_image: bool = False  # whether it is part of the image, if there is one
    # Whether the image's own ENTRYPOINT is started, with `argv` as its arguments or, without any,
    # with the image's CMD. For run mode docker.
    entry_point: bool = False


class Handle(Protocol):
    """The running program, as an argument of `stop` and `status`."""

    @property
    def pid(self) -> int:
        """The pid of the program, which is the leader of its process group and session."""

    def running(self) -> bool:
        """Whether the program is still running. Its child processes do not count."""

    def signal(self, number: int) -> str:
        """Sends the signal `number` to the program alone, and not to processes that it has started.
        While the program is a shell, which passes nothing on, all of its process group gets the
        signal. Does nothing if the program has ended.

        Returns the path of the file that has the code of the handler that has caught it, such as
        the Python interpreter or a library; "" if there is none, or that cannot be known."""

    def catches(self, number: int) -> bool:
        """Whether the program has a handler for the signal `number` now. False if it has ended."""


class Script:
    """The base class of scripts, which start, stop and check the program of a component. Each call
    may take at most the component's `commandScript.timeout`.

    `versions`: what its `prepare` has found out about what the program runs with, such as
    {"Python": "3.12.4"}. `tfapp status` shows it."""

    versions: Mapping[str, str] = MappingProxyType({})

    def prepare(self, context: Context) -> None:
        """Checks that the program can run here; raises ScriptError if not. Called once, before the
        instance reports that it is ready."""

    def start(self, context: Context) -> Program:
        """Returns the program to run. Called for each generation, when the whole cluster is known.
        The runner starts the program and watches it."""
        raise NotImplementedError(f"{type(self).__name__} has no start()")

    def stop(self, context: Context, handle: Handle) -> None:
        """Asks the program to end, by default with the signal in `site.global.stop.signal`.
        Processes that are still running after the grace are killed."""
        handle.signal(signal.Signals[context.config.get("stop.signal", "SIGTERM")])

    def status(self, context: Context, handle: Handle) -> bool:
        """Returns whether the program is healthy. Called at every heartbeat. After False the
        program is killed and reported as failed."""
        return handle.running()
