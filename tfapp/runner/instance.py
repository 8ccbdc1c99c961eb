"""The deeds of a runner: ports, exports, the program, the calls into the package's script."""

from __future__ import annotations

import dataclasses
import os
import queue
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfapp.contract.control import Cluster
from tfapp.contract.exit import Exit
from tfapp.contract.instances import instance_id
from tfapp.contract.log_lines import MAX_LAST_LINES
from tfapp.contract.reports import Answer, ExitReport
from tfapp.runner import context as contexts
from tfapp.runner import ports, process_tree, progress, script_calls
from tfapp.runner.container import Container
from tfapp.runner.docker.creation import local_path
from tfapp.runner.events import Ended, Report, Unwell
from tfapp.runner.exports import ExportError, Settings
from tfapp.runner.output import redact
from tfapp.runner.preparation import Preparation
from tfapp.runner.program import StartError
from tfapp.runner.run_mode import RunMode, Running
from tfapp.runner.script_calls import Outcome
from tfapp.runner.tensorflow_env import NoAddressError
from tfapp.script import Context, Program, Script


class FailedError(Exception):
    """A deed that failed; `exit` is how that is reported."""

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.exit = Exit(None, None, reason, text)


@dataclasses.dataclass(frozen=True)
class ScriptDone:
    """A call into the package's script is over."""

    name: str
    outcome: Outcome


class Instance:
    """One instance in its container. What happens later is put into the preparation's queue:
    `ScriptDone` after a call, `Ended` after the program. `say(line)` writes to the log."""

    def __init__(
        self,
        container: Container,
        preparation: Preparation,
        mode: RunMode,
        say: Callable[[str], None],
    ):
        self.name = instance_id(container.component.name, container.index)
        self.program: Running | None = None
        self._killed = False  # the program, by this runner
        self._container = container
        self._preparation = preparation
        self._events: queue.SimpleQueue = preparation.events
        self._mode = mode
        self._say = say
        self._ports: list[ports.HeldPort] = []
        self._settings = Settings({}, {})
        self._exports: contexts.Exports = {}
        self._context: Context | None = None
        self._traceback = ""  # the script's own, in place of the last lines of a program

    def answer(self, generation: int, container_id: str) -> Answer:
        """Takes new ports and makes the exports. FailedError when that is not possible. Never
        while an older program lives."""
        self.release_ports()
        self.program, self._context, self._traceback = None, None, ""
        try:
            self._settings = contexts.take_settings(self._container, self._take_port)
            self._exports = contexts.make_exports(self._container, self._settings)
        except (ports.NoPortError, ExportError, ValueError) as error:
            raise FailedError("start", f"{error} (on {self.host})") from error
        return Answer(
            generation=generation,
            instance=self.name,
            host=self.host,
            container=container_id,
            exports=self._exports,
            ports=self._settings.ports,
            pid=os.getpid(),
        )

    def keep_address(self) -> None:
        """Forgets the program that has ended. FailedError when a port that it was given is not
        free any more."""
        self.program, self._context, self._traceback = None, None, ""
        try:
            self._ports = [ports.hold_again(held) for held in self._ports]
        except ports.NoPortError as error:
            raise FailedError("start", f"{error} (on {self.host})") from error

    def choose(self, cluster: Cluster) -> None:
        """Asks the script for the program. FailedError when the cluster lacks an address."""
        settings, generation = self._settings, cluster.generation
        try:
            self._context = context = contexts.build_context(
                self._container,
                settings,
                generation,
                self._exports,
                self._mode.execute,
                cluster.members,
            )
        except NoAddressError as error:
            raise FailedError("start", str(error)) from error
        self._call("start", lambda: self._script.start(context))

    def launch(self, program: Program) -> None:
        """Starts the program. FailedError when it cannot be. For the main thread."""
        context = self._context
        assert context is not None, "a program is chosen with a context"
        released = {context.ports.get(key) for key in program.release_ports}
        ports.release(held for held in self._ports if held.number in released)
        command = shlex.join(program.argv).replace(f"{self._container.root}/", "")
        self.tell(f"starting {command}")
        try:
            running = self._mode.start(program, context)
        except StartError as error:
            raise FailedError("start", str(error)) from error
        self.program, self._killed = running, False

        def wait() -> None:
            exit = running.wait()
            self._events.put(Ended(exit, self._killed))

        threading.Thread(target=wait, name="tfapp-program", daemon=True).start()
        self._watch_progress(running, context)

    def _watch_progress(self, running: Running, context: Context) -> None:
        limit = self._container.component.progress_timeout
        if not limit:
            return
        folder = local_path(context.checkpoint_dir)
        places = [self._container.progress_file, *([Path(folder)] if folder else [])]
        interval = self._container.job.limits.heartbeat
        progress.watch(
            running, places, limit, interval, lambda exit: self._events.put(Unwell(exit))
        )

    def stop(self) -> None:
        """Lets the script ask the program to end."""
        context, program = self._context, self.program
        assert context is not None and program is not None, "only what runs is stopped"
        self._call("stop", lambda: self._script.stop(context, program))

    def ask_status(self) -> None:
        """Lets the script look at the program."""
        context, program = self._context, self.program
        assert context is not None and program is not None, "only what runs is looked at"
        process_tree.reap(spare=program.pid)
        self._call("status", lambda: self._script.status(context, program))

    def kill(self) -> None:
        """Kills the program with all that it has started; `Ended` follows."""
        if self.program is not None:
            self._killed = self._killed or self.program.alive
            self.program.kill()

    def tell(self, text: str) -> None:
        """Writes to the container's log, without secrets."""
        self._say(redact(text, self._container.private.redact))

    def show(self, traceback: str) -> None:
        """Tells a script's own traceback, and keeps it for the report."""
        self._traceback = traceback
        if traceback:
            self.tell(traceback)

    def report(self, action: Report, container_id: str) -> ExitReport:
        """What is to be told of the end of a generation here, without secrets."""
        program = self.program
        secrets = self._container.private.redact
        exit = action.exit
        # How a program ended is tfapp's own sentence, and a value such as KILL is no secret in it.
        if exit.reason in ("script", "start"):
            exit = dataclasses.replace(exit, text=redact(exit.text, secrets))
        self._say(f"{self.name} has ended: {exit.text}")
        return ExitReport(
            generation=action.generation,
            instance=self.name,
            container=container_id,
            host=self.host,
            exit=exit,
            stopped=action.stopped,
            last_lines=program.last_lines() if program else _end(redact(self._traceback, secrets)),
            seconds=round(program.seconds, 3) if program else 0.0,
            attempt=action.attempt,
        )

    def release_ports(self) -> None:
        """Lets go of all ports."""
        ports.release(self._ports)
        self._ports = []

    def _take_port(self, preferred: int) -> int:
        allowed = self._container.component.site.get("site.global.slider.allowed.ports", "")
        held = ports.hold(allowed, preferred)
        self._ports.append(held)
        return held.number

    @property
    def host(self) -> str:
        """The one that it advertises."""
        return self._container.host(self._settings.site or self._container.component.site)

    @property
    def preparing(self) -> str:
        """What the preparation is at, where that takes long, without secrets; else ""."""
        return redact(self._mode.preparing, self._container.private.redact)

    @property
    def _script(self) -> Script:
        script = self._preparation.script
        assert script is not None, "nothing is started before the preparation is over"
        return script

    def _call(self, name: str, function: Callable[[], Any]) -> None:
        component = self._container.component
        script_calls.call(
            f"{name}()",
            function,
            component.script_timeout,
            Path(component.script),
            self._container.package_dir,
            lambda outcome: self._events.put(ScriptDone(name, outcome)),
            overdue="timeout" if name == "start" else "script",
        )


def _end(text: str) -> str:
    return text.encode()[-MAX_LAST_LINES:].decode(errors="ignore").strip("\n")
